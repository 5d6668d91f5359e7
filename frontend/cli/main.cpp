// The tool `frit`: words to options, options to subcommands, failures to exit codes (0 done, 1 the script failed, 2 wrong usage).
// Start at main; each subcommand is declared by one function here and done by one in its own file.
#include <signal.h>
#include <CLI/CLI.hpp>
#include "frontend/cli/commands.h"
#include "frontend/run_record.h"
#include "runtime/error.h"
#include "runtime/settings.h"

namespace frit::cli {

namespace {
// What a subcommand does, once its words are understood.
struct Tool {
  CLI::App app{"Frit: tensors traced while they run, fused and compiled.", "frit"};
  std::function<int()> action;
  RunOptions run;
  DoctorOptions doctor;
  CacheOptions cache;
  BenchOptions bench;
  TuneOptions tune;
  ExplainOptions explain;
  ReportOptions report;
};

// "frit run [OPTIONS] script.cpp [arguments of the script]": the script is no option that the parser knows.
struct Help : CLI::Formatter {
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string usual = CLI::Formatter::make_usage(app, name);
    return app->get_prefix_command() ? usual.substr(0, usual.find_last_not_of('\n') + 1) + " script.cpp [arguments of the script]\n\n" : usual;
  }
};

// The options that all have which run a script.
void script_options(CLI::App& sub, ScriptOptions& o) {
  sub.add_option("--mode", o.mode, "eager: each op at its call; automatic: traced, compiled once hot (the default)")->check(CLI::IsMember({"eager", "automatic"}));
  sub.add_option("--device", o.device, "where tensors are made: cpu")->check(CLI::IsMember({"cpu", "cuda"}))->each([](const std::string& device) { check_device(device); });
  sub.add_option("--compiler", o.compiler, "the C++ compiler (default: the first of clang++ and g++ that is there)");
  sub.add_option("--flags", o.flags, "more flags for it, in one word: --flags \"-O3 -march=native\"");
  sub.add_option("--policy", o.buckets, "a policy file, as frit tune writes it");
  sub.add_option("--timeout", o.timeout, "seconds after which the script is stopped")->check(CLI::PositiveNumber);
}
// frit run: the script, and all that follows it is the script's own.
void take_script(CLI::App& sub, ScriptOptions& o) {
  std::vector<std::string> rest = sub.remaining();
  if (!rest.empty() && rest[0] == "--") rest.erase(rest.begin());
  else if (!rest.empty() && rest[0].size() > 1 && rest[0][0] == '-') throw UsageError(sub.get_name() + " has no option " + rest[0] + ". Options of the script come after its name; frit " + sub.get_name() + " --help lists the others.");
  if (rest.empty()) throw UsageError(sub.get_name() + " needs a script: frit " + sub.get_name() + " script.cpp");
  o.file = rest[0];
  o.arguments.assign(rest.begin() + 1, rest.end());
}
// The others: options may stand on both sides of the script; what is for the script comes after --.
void script_word(CLI::App& sub, ScriptOptions& o) {
  sub.add_option("script", o.file, "a C++ file");
  sub.add_option("arguments", o.arguments, "for the script; after -- where they look like options");
  script_options(sub, o);
}
void need_script(const CLI::App& sub, const ScriptOptions& o) {
  if (o.file.empty()) throw UsageError(sub.get_name() + " needs a script: frit " + sub.get_name() + " script.cpp");
}
void examples(CLI::App& sub, const std::string& text) { sub.footer("Examples:\n" + text); }

void add_run(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("run", "compile (kept by content) and run a single-file script");
  sub->prefix_command();
  script_options(*sub, tool.run);
  sub->add_option("--trace", tool.run.trace, "write what ran, and when, to this file (Chrome's trace format; opens in Perfetto)");
  sub->add_flag("--watch", tool.run.watch, "run again whenever the script, or what it includes, is saved");
  sub->add_flag("-v,--verbose", tool.run.verbose, "say where the program came from");
  examples(*sub, "  frit run train.cpp --steps 100        what follows the script is for it\n  frit run --mode eager train.cpp\n  frit run --watch sketch.cpp\n");
  sub->callback([&tool, sub] {
    take_script(*sub, tool.run);
    tool.action = [&tool] { return run_command(tool.run); };
  });
}
void add_bench(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("bench", "eager against automatic and compiled: the FRIT_BENCH bodies of a script, or the built-in suite");
  script_word(*sub, tool.bench);
  sub->add_flag("--suite", tool.bench.suite, "the built-in bodies, all or those named: pointwise norm softmax gemm attention mlp transformer decode shapes");
  sub->add_option("--only", tool.bench.names, "these bodies, by commas")->delimiter(',');
  sub->add_option("--seconds", tool.bench.seconds, "time for the samples of a body (default 0.4)")->check(CLI::Range(0.001, 3600.0));
  sub->add_option("--json", tool.bench.json, "write all that was measured to this file");
  sub->add_option("--markdown", tool.bench.markdown, "write the tables to this file");
  sub->add_option("--baseline", tool.bench.baseline, "compare with an older --json file");
  examples(*sub, "  frit bench mine.cpp --json now.json     a script with FRIT_BENCH(name) { … } bodies\n  frit bench --suite softmax gemm\n  frit bench mine.cpp --baseline old.json\n");
  sub->callback([&tool, sub] {
    if (tool.bench.suite) {
      if (!tool.bench.file.empty()) tool.bench.names.push_back(tool.bench.file);
      tool.bench.names.insert(tool.bench.names.end(), tool.bench.arguments.begin(), tool.bench.arguments.end());
    } else {
      need_script(*sub, tool.bench);
    }
    tool.action = [&tool] { return bench_command(tool.bench); };
  });
}
void add_tune(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("tune", "choose shape buckets for a script from what it measures; writes policy.json");
  script_word(*sub, tool.tune);
  sub->add_option("--axis", tool.tune.axes, "the axes, by commas (default: all named ones that vary; `default`: those without a name)")->delimiter(',');
  sub->add_option("--buckets", tool.tune.buckets, "at most so many buckets for an axis (default 8)")->check(CLI::Range(1, 512));
  sub->add_option("--runs", tool.tune.runs, "how many runs like this one share what is compiled (default 1): more makes narrow buckets worth their compile")->check(CLI::PositiveNumber);
  sub->add_option("-o,--output", tool.tune.output, "the policy file (default policy.json)");
  sub->add_option("--log", tool.tune.log, "read a record (FRIT_REPORT) in place of running a script; nothing is replayed");
  sub->add_flag("--random", tool.tune.random, "compare with pow2 and the best five of 1,000 random policies too");
  examples(*sub, "  frit tune train.cpp --axis seq --buckets 8 -- --steps 100\n  FRIT_BUCKETS=$PWD/policy.json frit run train.cpp\n");
  sub->callback([&tool, sub] {
    if (tool.tune.log.empty()) need_script(*sub, tool.tune);
    else tool.tune.file = tool.tune.log;
    tool.action = [&tool] { return tune_command(tool.tune); };
  });
}
void add_explain(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("explain", "what was fused and compiled when a script ran, and why not more");
  script_word(*sub, tool.explain);
  sub->add_option("--dot", tool.explain.dot, "write the plans as a graph for dot to this file");
  sub->add_option("--html", tool.explain.html, "write a page to this file");
  examples(*sub, "  frit explain train.cpp\n  frit explain train.cpp --dot plans.dot && dot -Tsvg plans.dot > plans.svg\n");
  sub->callback([&tool, sub] {
    need_script(*sub, tool.explain);
    tool.action = [&tool] { return explain_command(tool.explain); };
  });
}
void add_report(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("report", "one self-contained page about a run: time, kernels, plans, buckets, memory");
  script_word(*sub, tool.report);
  sub->add_option("-o,--output", tool.report.output, "the page (default report.html)");
  sub->add_option("--record", tool.report.record, "read this record (FRIT_REPORT) in place of running a script");
  sub->add_option("--keep", tool.report.keep, "write the record to this file too");
  sub->add_option("--trace", tool.report.trace, "write what ran, and when, to this file (Chrome's trace format)");
  examples(*sub, "  frit report train.cpp -o r.html\n  FRIT_REPORT=$PWD/run.json ./mine && frit report --record run.json\n");
  sub->callback([&tool, sub] {
    if (tool.report.record.empty()) need_script(*sub, tool.report);
    tool.action = [&tool] { return report_command(tool.report); };
  });
}
void add_doctor(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("doctor", "what was found: processor, measured limits, GPU, libraries, settings");
  sub->add_flag("--settings", tool.doctor.settings, "the settings alone, each with its value, origin and meaning");
  sub->add_flag("--quick", tool.doctor.quick, "measure nothing");
  sub->add_flag("--json", tool.doctor.json, "as JSON");
  examples(*sub, "  frit doctor\n  frit doctor --settings\n");
  sub->callback([&tool] { tool.action = [&tool] { return doctor_command(tool.doctor); }; });
}
void add_cache(Tool& tool) {
  CLI::App* const sub = tool.app.add_subcommand("cache", "kernels and compiled scripts on disk");
  sub->require_subcommand(1);
  const auto action = [&tool, sub](const char* name, const char* help) {
    CLI::App* const a = sub->add_subcommand(name, help);
    a->callback([&tool, name] {
      tool.cache.action = name;
      tool.action = [&tool] { return cache_command(tool.cache); };
    });
    return a;
  };
  action("list", "what is there");
  action("verify", "reads every entry and removes what is damaged");
  CLI::App* const prune = action("prune", "removes what was used least recently");
  prune->add_option("--limit", tool.cache.limit, "bytes that may stay of kernels, and of scripts: 64M (default: FRIT_CACHE_LIMIT)");
  prune->add_flag("--all", tool.cache.all, "remove everything");
  examples(*sub, "  frit cache list\n  frit cache prune --limit 64M\n");
}

int run_tool(int count, char** words) {
  Tool tool;
  tool.app.set_version_flag("--version", std::string("frit ") + FRIT_VERSION);
  tool.app.formatter(std::make_shared<Help>());
  tool.app.require_subcommand(1);
  add_run(tool);
  add_bench(tool);
  add_tune(tool);
  add_explain(tool);
  add_report(tool);
  add_cache(tool);
  add_doctor(tool);
  tool.app.footer("frit COMMAND --help tells more. Exit codes: 0 done, 1 the script failed, 2 wrong usage.\nSettings are environment variables FRIT_*; frit doctor --settings lists them.");
  try {
    tool.app.parse(count, words);
  } catch (const CLI::Success& e) {  // --help, --version
    tool.app.exit(e);
    return done;
  } catch (const CLI::ParseError& e) {
    std::string what = e.what();
    if (count < 2) return std::fputs(tool.app.help().c_str(), stderr), wrong_usage;
    if (words[1][0] != '-' && tool.app.get_subcommands([&](const CLI::App* a) { return a->get_name() == words[1]; }).empty()) what = std::string("there is no command ") + words[1];
    throw UsageError(what + (what.ends_with('.') ? "" : ".") + " frit --help lists the commands.");
  }
  settings();  // a value that makes no sense is told before anything is done
  return tool.action();
}
}  // namespace

}  // namespace frit::cli

int main(int count, char** words) {
  using namespace frit::cli;
  try {
    const bool suite = count > 1 && std::string(words[1]) == "suite-bodies";  // what frit bench --suite measures, in a process of its own
    if (suite) return suite_bodies({words + 2, words + count});
    frit::detail::record_nothing();
    watch_signals();
    const int code = run_tool(count, words);
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
    throw UsageError("the output cannot be written");
  } catch (const UsageError& e) {
    complain(e.what());
    return wrong_usage;
  } catch (const ScriptError& e) {
    complain(e.what());
    return script_failed;
  } catch (const Interrupted& i) {  // everything half made is gone by now: end as the signal would have ended the tool
    ::signal(i.signal, SIG_DFL);
    ::raise(i.signal);
    return script_failed;
  } catch (const frit::ValueError& e) {  // of a setting: no line of a program
    complain(e.msg());
    return wrong_usage;
  } catch (const std::exception& e) {
    complain(e.what());
    return script_failed;
  }
}
