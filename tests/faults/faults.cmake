# The faults that test_automatic_faults plants, one at a time: a name, the file, what stands there, and what stands there instead
# (PLANTED is true while the fault is on). What is called rare takes more programs than a quick test has, and is tried when it is
# named. Text that is not in its file any more stops the build: the fault moves with the code.

# ---- which ops share a kernel, and in which order
fault(axes_of_kept_values_mixed_up jit/fuse.cpp [=[if (shown[i] != own) return false;]=] [=[if (!PLANTED && shown[i] != own) return false;]=])
fault(writes_through_views_share_a_kernel jit/fuse.cpp [=[if (h == g && !d.same_group_allowed)]=] [=[if (!PLANTED && h == g && !d.same_group_allowed)]=])
fault(outputs_that_are_roots_forgotten jit/fuse.cpp [=[bool out = roots_[n] || g.kind == GroupKind::single;]=]
  [=[bool out = (roots_[n] && !PLANTED) || g.kind == GroupKind::single;]=])
fault(reads_not_ordered_after_writes jit/fuse.cpp [=[if (a.write && a.node != n) d.push_back({a.node, a.node == in});]=]
  [=[if (!PLANTED && a.write && a.node != n) d.push_back({a.node, a.node == in});]=])
fault(rare_writes_not_ordered_after_reads jit/fuse.cpp [=[accesses_[storage_[in]].push_back({n, false});]=] [=[if (!PLANTED) accesses_[storage_[in]].push_back({n, false});]=])
fault(every_write_is_private jit/memory_classes.cpp [=[pure[n] = (t.nodes[n].call.mode & in_place) && !shared[first[n]];]=]
  [=[pure[n] = (t.nodes[n].call.mode & in_place) && (PLANTED || !shared[first[n]]);]=])
fault(leaves_never_share_memory jit/memory_classes.cpp [=[memory.push_back(table.find(t.value[n]->storage));]=] [=[memory.push_back(PLANTED ? n : table.find(t.value[n]->storage));]=])
fault(rare_sliced_views_pass_through jit/memory_classes.cpp [=[if (op != Op::expand && op != Op::reshape && op != Op::detach) return false;]=]
  [=[if (op != Op::expand && op != Op::reshape && op != Op::detach && !(PLANTED && op == Op::permute)) return false;]=])

# ---- what a kernel computes
fault(half_values_not_rounded jit/group.cpp [=[if (!is_half(d) || b_.is_rounded(v, d)) return;]=] [=[if (PLANTED || !is_half(d) || b_.is_rounded(v, d)) return;]=])
fault(rare_half_maximum_taken_as_exact kernels/program.cpp [=[case Prim::min: case Prim::max: return all({0, 1});]=] [=[case Prim::min: case Prim::max: return all({0}) && (PLANTED || all({1}));]=])
fault(operands_that_do_not_vary_counted_once jit/group.cpp [=[if (!varies(item.refs[0])) {]=] [=[if (!PLANTED && !varies(item.refs[0])) {]=])
fault(rare_conversions_by_machine jit/group.cpp [=[b_.expand(tracer::copy_function(item.in, item.result), {v}, {})[0]]=]
  [=[(PLANTED ? v : b_.expand(tracer::copy_function(item.in, item.result), {v}, {})[0])]=])
fault(numbers_from_the_first_slot jit/run_plan.cpp [=[t.args[call.arg + s.slot]]=] [=[t.args[call.arg + (PLANTED ? 0 : s.slot)]]=])
fault(half_numbers_not_rounded jit/run_plan.cpp [=[if (is_half(s.type)) {]=] [=[if (!PLANTED && is_half(s.type)) {]=])
fault(numbers_baked_into_the_plan jit/run_plan.cpp [=[for (const GroupPlan::NumberSource& n : gp.numbers) slot[count++] = number_slot(t, n);]=]
  [=[for (const GroupPlan::NumberSource& n : gp.numbers) {
    static thread_local std::vector<std::pair<const void*, Slot>> baked;
    Slot value = number_slot(t, n);
    const auto at = std::find_if(baked.begin(), baked.end(), [&](const auto& b) { return b.first == &n; });
    if (!PLANTED) baked.clear();
    else if (at == baked.end()) baked.emplace_back(&n, value);
    else value = at->second;
    slot[count++] = value;
  }]=])

# ---- masks, layouts and memory of a plan
fault(tails_not_computed jit/run_plan.cpp [=[slot[count++] = Slot(s.extent[last]);]=] [=[slot[count++] = Slot(PLANTED ? s.extent[last] / 8 * 8 : s.extent[last]);]=])
fault(reduced_extent_one_short jit/run_plan.cpp [=[if (columns) slot[count++] = Slot(s.reduced);]=] [=[if (columns) slot[count++] = Slot(PLANTED ? s.reduced - 1 : s.reduced);]=])
fault(kernels_shared_between_layouts jit/tiers.cpp [=[find_or_create(code.bytes() + layout.bytes(), [&]]=] [=[find_or_create(code.bytes() + (PLANTED ? std::string() : layout.bytes()), [&]]=])
fault(writes_go_to_new_memory jit/run_plan.cpp [=[if (o.in_place) {]=] [=[if (o.in_place && !PLANTED) {]=])
fault(results_always_contiguous jit/run_plan.cpp [=[std::copy_n(strides.stride, t.rank_of(o.node), v->stride);]=] [=[if (!PLANTED) std::copy_n(strides.stride, t.rank_of(o.node), v->stride);]=])
fault(values_dropped_too_early jit/plan.cpp [=[last[n] = std::max(last[n], step + 1);]=] [=[last[n] = std::max(last[n], PLANTED && step ? step : step + 1);]=])
fault(bases_of_views_dropped jit/plan.cpp [=[if (k == RowKind::view) again(t.nodes[n].call.in[0], step, again);]=] [=[if (!PLANTED && k == RowKind::view) again(t.nodes[n].call.in[0], step, again);]=])
fault(rare_writes_of_a_plan_not_counted jit/plan.cpp [=[t.version[n.node] = n.before;]=] [=[t.version[n.node] = PLANTED ? 0 : n.before;]=])
fault(root_views_not_made jit/run_plan.cpp [=[if (!failures.any() || !failures.reach(n)) make_value(t, n);]=] [=[if (!PLANTED && (!failures.any() || !failures.reach(n))) make_value(t, n);]=])

# ---- what is run at all
fault(saved_results_not_kept jit/execute.cpp [=[if (saved & Out) roots[n] = true;]=] [=[if (!PLANTED && (saved & Out)) roots[n] = true;]=])
fault(saved_operands_not_kept jit/execute.cpp [=[if (saved & saved_input(k)) roots[in] = true;]=] [=[if (!PLANTED && (saved & saved_input(k))) roots[in] = true;]=])
fault(unread_writes_left_out jit/execute.cpp [=[(node.call.mode & in_place) && !(pure.size() && pure[n]))]=] [=[(node.call.mode & in_place) && !PLANTED && !(pure.size() && pure[n]))]=])

# ---- recording: views, writes, saved tensors
fault(saved_operands_released tracer/flush.cpp [=[if (what & saved_input(k)) saved[in] = true;]=] [=[if (!PLANTED && (what & saved_input(k))) saved[in] = true;]=])
fault(rare_written_tensors_read_as_they_were tracer/trace.cpp [=[if (!is_stale(*open, latest)) return latest;]=] [=[if (PLANTED || !is_stale(*open, latest)) return latest;]=])
fault(rare_views_of_written_bases_stay tracer/trace.cpp [=[if (c->base && root_base(c)->writes != c->seen) refresh(c);]=] [=[if (c->base && root_base(c)->writes != c->seen && !(PLANTED && !eager)) refresh(c);]=])
fault(rare_bases_do_not_learn_of_written_views tracer/trace.cpp [=[if (!grad) return;]=] [=[if (!grad || (PLANTED && !eager)) return;]=])
fault(reads_do_not_wait_for_writes tracer/trace.cpp [=[if (c->deferred || (c->value && c->value->storage->pending]=] [=[if (c->deferred || (!PLANTED && c->value && c->value->storage->pending]=])
fault(rare_recorded_writes_do_not_count tracer/trace.cpp [=[s->version.fetch_add(1, std::memory_order_relaxed);]=] [=[if (eager || !PLANTED) s->version.fetch_add(1, std::memory_order_relaxed);]=])
fault(rare_overwritten_leaves_read_as_they_were tracer/trace.cpp [=[if (eager || !c->value || open->version[n] == c->value->storage->version]=] [=[if (PLANTED || eager || !c->value || open->version[n] == c->value->storage->version]=])
fault(names_follow_size_classes tracer/flush.cpp [=[if (const uint16_t name = t.label_of(t.nodes[n].result.size[i]); t]=] [=[if (const uint16_t name = t.label_of(PLANTED && !eager ? t.find(t.nodes[n].result.size[i]) : t.nodes[n].result.size[i]); t]=])
fault(rare_overwritten_saved_tensors_unnoticed tracer/gradient.cpp [=[if (memory_place(t, t.written[k]) == own) overwritten(t, n, reader, by, t.written[k]);]=] [=[if (!PLANTED && memory_place(t, t.written[k]) == own) overwritten(t, n, reader, by, t.written[k]);]=])
fault(strides_of_results_not_predicted tracer/predict.cpp [=[ordered_strides(out.extent, out.rank, order, out.stride);]=] [=[PLANTED ? make_contiguous(out) : ordered_strides(out.extent, out.rank, order, out.stride);]=])

fault(rare_expanded_targets_accepted tracer/var.cpp [=[if (!can) return false;]=] [=[if (PLANTED || !can) return false;]=])

# ---- compiles that fail
fault(kernel_compiles_fail jit/tiers.cpp [=[std::shared_ptr<CpuKernel> k = load_or_compile('g',]=]
  [=[if (PLANTED) throw std::runtime_error("planted");
    std::shared_ptr<CpuKernel> k = load_or_compile('g',]=])
fault(plan_compiles_fail jit/tiers.cpp [=[std::shared_ptr<Plan> p = build_plan(t, needed, roots);]=]
  [=[if (PLANTED) throw std::runtime_error("planted");
  std::shared_ptr<Plan> p = build_plan(t, needed, roots);]=])

# ---- following known traces, repeated flushes
fault(followed_operands_not_compared tracer/follow.cpp [=[a.arg == b.arg && a.in[0] == b.in[0] && a.in[1] == b.in[1]]=] [=[a.arg == b.arg && (PLANTED || a.in[0] == b.in[0]) && a.in[1] == b.in[1]]=])
fault(followed_attributes_not_compared tracer/follow.cpp [=[a.in[3] == b.in[3] && a.attr == b.attr;]=] [=[a.in[3] == b.in[3] && (PLANTED || a.attr == b.attr);]=])
fault(followed_results_not_compared tracer/follow.cpp [=[if (a.dtype != b.dtype || a.rank != b.rank || a.flags != b.flags]=] [=[if (PLANTED) return true;
  if (a.dtype != b.dtype || a.rank != b.rank || a.flags != b.flags]=])
fault(followed_extents_not_compared tracer/follow.cpp [=[t.extent[join.child] != t.extent[join.parent]) return nullptr;]=] [=[!PLANTED && t.extent[join.child] != t.extent[join.parent]) return nullptr;]=])
fault(repeated_flushes_ignore_handles jit/repeat.cpp [=[other |= unsigned(t.owner[n] != nullptr) ^ owned_[n];]=] [=[other |= PLANTED ? 0u : unsigned(t.owner[n] != nullptr) ^ owned_[n];]=])
fault(repeated_flushes_ignore_memory jit/repeat.cpp [=[return memory_of(t, leaves_) == memory_;]=] [=[return PLANTED || memory_of(t, leaves_) == memory_;]=])
fault(repeated_flushes_ignore_strides jit/repeat.cpp [=[if (stride_class(*t.value[leaves_[i]]) != strides_[i]) return false;]=] [=[if (!PLANTED && stride_class(*t.value[leaves_[i]]) != strides_[i]) return false;]=])
fault(repeated_flushes_ignore_buckets jit/repeat.cpp [=[e <= v.buckets[i].low || e > v.buckets[i].high) return false;]=] [=[!PLANTED && (e <= v.buckets[i].low || e > v.buckets[i].high)) return false;]=])

# ---- the key, its buckets
fault(key_without_strides jit/key.cpp [=[w.put(stride_class(v));]=] [=[w.put(PLANTED ? uint64_t(0) : stride_class(v));]=])
fault(key_without_shared_memory jit/key.cpp [=[w.put(memory[n]);]=] [=[w.put(PLANTED ? 0u : memory[n]);]=])
fault(key_without_roots jit/key.cpp [=[uint8_t(roots[n]) << 7]=] [=[uint8_t(roots[n] && !PLANTED) << 7]=])
fault(key_without_modes jit/key.cpp [=[w.put(uint8_t(call.mode |]=] [=[w.put(uint8_t((PLANTED ? 0 : call.mode) |]=])
fault(key_without_ops jit/key.cpp [=[w.put(call.op);]=] [=[w.put(PLANTED && row(call.op).kind == RowKind::pointwise ? Op::add : call.op);]=])
fault(key_without_attributes jit/key.cpp [=[w.put(call.attr);]=] [=[w.put(PLANTED ? uint64_t(0) : call.attr);]=])
fault(key_without_kinds jit/key.cpp [=[w.put(call.kind);]=] [=[w.put(PLANTED ? uint8_t(0) : call.kind);]=])
fault(key_without_operands jit/key.cpp [=[w.put(t.input(n, k));]=] [=[w.put(PLANTED ? 0u : t.input(n, k));]=])
fault(key_without_units jit/key.cpp [=[number[0] = 0, number[1] = 1;]=] [=[number[0] = 0, number[1] = PLANTED ? 0 : 1;]=])
fault(key_with_extents jit/key.cpp [=[w.put(number[s]);  // a new]=] [=[w.put(uint16_t(PLANTED ? t.extent[s] : number[s]));  // a new]=])
fault(key_without_names jit/key.cpp [=[w.put(name[s]);]=] [=[w.put(PLANTED ? uint16_t(0) : name[s]);]=])
fault(buckets_of_products jit/key.cpp [=[if (independent[s]) {]=] [=[if (PLANTED || independent[s]) {]=])
fault(buckets_without_policy jit/key.cpp [=[policy_of(name[s]).bucket(e)]=] [=[policy_of(PLANTED ? uint16_t(0) : name[s]).bucket(e)]=])
fault(key_without_buckets jit/key.cpp [=[w.put(a.bucket.low), w.put(a.bucket.high);]=] [=[w.put(PLANTED ? int64_t(0) : a.bucket.low), w.put(PLANTED ? int64_t(0) : a.bucket.high);]=])
