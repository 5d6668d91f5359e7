"""The rows of bench/suite.cpp on the Python peers, with its commands. Start reading at main; a row is a function that makes its inputs and
returns what is timed and, for training, the state that counts.

  suite.py torch-eager | torch-compile | jax-jit [THREADS [cpu]]
"""
import math
import os
import sys
import time

kind = sys.argv[1] if len(sys.argv) > 1 else "torch-eager"
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
clock = time.process_time if sys.argv[3:] == ["cpu"] else time.perf_counter
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(threads)
if kind == "jax-jit" and threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["NPROC"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np


def raw(*sizes, start=0, scale=1.0):
    i = np.arange(math.prod(sizes), dtype=np.uint32) + np.uint32(start)
    v = ((i * np.uint32(2654435761)) >> np.uint32(8)) & np.uint32(1023)
    return ((v.astype(np.float32) / np.float32(1024) - np.float32(0.5)) * np.float32(scale)).reshape(sizes)


def raw_classes(count, below, start=0):
    i = np.arange(count, dtype=np.uint32) + np.uint32(start)
    return ((i * np.uint32(2654435761)) >> np.uint32(8)).astype(np.int64) % below


# ---- torch -------------------------------------------------------------------------------------------------------------------------
def window_rows(convolution, image, plain, backward_of, pool):
    return {
        "C1 conv2d [32,64,56,56] by [64,64,3,3]": lambda: convolution(32, 64, 56),
        "C1 conv2d forward + backward [32,64,56,56] by [64,64,3,3]": lambda: convolution(32, 64, 56, backward=True),
        "C1 conv2d forward + backward [32,256,14,14] by [256,256,3,3]": lambda: convolution(32, 256, 14, backward=True),
        "C1 conv2d depthwise forward + backward [32,64,56,56]": lambda: convolution(32, 64, 56, 64, True),
        "C2 max_pool2d [32,64,56,56] by 3, stride 2": lambda: plain(pool, image()),
        "C2 max_pool2d forward + backward [32,64,56,56] by 3, stride 2": lambda: backward_of(pool, image()),
    }


def torch_rows():
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)
    compiled = kind == "torch-compile"

    def mode(f):
        return torch.compile(f) if compiled else f

    def numbers(*sizes, start=0, scale=1.0):
        return torch.from_numpy(raw(*sizes, start=start, scale=scale))

    def classes(count, below, start=0):
        return torch.from_numpy(raw_classes(count, below, start))

    def plain(f, *inputs):
        g = mode(f)
        return lambda: [g(*inputs)], None, 1

    def backward_of(f, *inputs):
        leaves = [x.clone().requires_grad_(True) for x in inputs]
        g = mode(f)

        def run():
            y = g(*leaves)
            return [y.detach(), *torch.autograd.grad([y], leaves, [y.detach()])]

        return run, None, 1

    def attention(q, k, v, future):
        scores = q.matmul(k.transpose(-2, -1)) * 0.125
        return torch.softmax(scores.masked_fill(future, -math.inf), -1).matmul(v)

    def future_of(length):
        at = torch.arange(length)
        return at.unsqueeze(0) > at.unsqueeze(1)

    def attention_row(length, backward=False, fused=False):
        q, k, v = numbers(2, 8, length, 64, scale=4), numbers(2, 8, length, 64, start=77, scale=4), numbers(2, 8, length, 64, start=99)
        if fused:
            f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return backward_of(f, q, k, v) if backward else plain(f, q, k, v)
        future = future_of(length)
        f = lambda q, k, v: attention(q, k, v, future)
        return backward_of(f, q, k, v) if backward else plain(f, q, k, v)

    def set_parameters(net):
        with torch.no_grad():
            for i, p in enumerate(net.parameters()):
                width = 1 / math.sqrt(p.shape[-1]) if p.dim() > 1 else 0.02
                p.copy_(numbers(*p.shape, start=(i + 1) * 7919) * width)

    def training(net, optimizer, loss):
        f = mode(lambda: loss(net))

        def run():
            optimizer.zero_grad()
            value = f()
            value.backward()
            optimizer.step()
            return [value.detach()]

        return run, lambda: list(net.parameters()), 3

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.three = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)
            set_parameters(self)

        def forward(self, x):
            return self.three(torch.relu(self.two(torch.relu(self.one(x)))))

    def mlp_row(batch, adamw):
        net, x, y = Mlp(), numbers(batch, 784), classes(batch, 10)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3) if adamw else torch.optim.SGD(net.parameters(), 0.05)
        return training(net, optimizer, lambda n: F.cross_entropy(n(x), y))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(512, 256), nn.Embedding(128, 256)
            self.first, self.qkv, self.join = nn.LayerNorm(256), nn.Linear(256, 768), nn.Linear(256, 256)
            self.second, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)
            self.last, self.head = nn.LayerNorm(256), nn.Linear(256, 512)
            set_parameters(self)
            with torch.no_grad():
                for norm in (self.first, self.second, self.last):
                    norm.weight.fill_(1.0)

        def forward(self, tokens, future):
            batch, length = tokens.shape
            x = self.token(tokens) + self.place(torch.arange(length))
            split = lambda t: t.reshape(batch, length, 4, 64).transpose(1, 2)
            q, k, v = (split(t) for t in self.qkv(self.first(x)).chunk(3, -1))
            x = x + self.join(attention(q, k, v, future).transpose(1, 2).reshape(batch, length, 256))
            x = x + self.down(F.gelu(self.up(self.second(x))))
            return self.head(self.last(x))

    def transformer_row():
        net, tokens, target, future = Transformer(), classes(1024, 512).view(8, 128), classes(1024, 512, 5), future_of(128)
        return training(net, torch.optim.AdamW(net.parameters(), 1e-3), lambda n: F.cross_entropy(n(tokens, future).flatten(0, 1), target))

    def gelu_row(*sizes):
        return plain(lambda x, w, b: F.gelu(x * w + b), numbers(*sizes, scale=4), numbers(sizes[-1], start=3), numbers(sizes[-1], start=5))

    def chain_row(n):
        return plain(lambda x: torch.tanh(torch.sin(x) * 2 + 1) * torch.sigmoid(x), numbers(n, scale=4))

    # Every side draws other numbers: what is made is kept until the next run, and what is compared is true whatever was dropped.
    def dropout_row(backward):
        inputs = [numbers(8192, 1024).requires_grad_(backward), numbers(1024, start=3).requires_grad_(backward), numbers(1024, start=5).requires_grad_(backward)]
        f = mode(lambda x, w, b: torch.dropout(torch.relu(x * w + b), 0.5, True))
        kept = []

        def run():
            kept.clear()
            y = f(*inputs)
            kept.append(y.detach())
            if backward:
                kept.extend(torch.autograd.grad([y], inputs, [y.detach()]))
            return [kept[0][0] >= 0, kept[-1].select(0, 0).abs() >= 0]

        return run, None, 1

    def relu_row(dtype):
        inputs = [t.to(dtype) for t in (numbers(8192, 4096), numbers(4096, start=3), numbers(4096, start=5))]
        return plain(lambda x, w, b: torch.relu(x * w + b), *inputs)

    def convolution_row(batch, channels, extent, groups=1, backward=False):
        inputs = numbers(batch, channels, extent, extent), numbers(channels, channels // groups, 3, 3, start=3)
        f = lambda x, w: F.conv2d(x, w, padding=1, groups=groups)
        return backward_of(f, *inputs) if backward else plain(f, *inputs)

    pool = lambda x: F.max_pool2d(x, 3, 2, 1)

    def product_row(dtype):
        return plain(torch.matmul, numbers(512, 768).to(dtype), numbers(768, 1024, start=3).to(dtype))

    rms = lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
    soft = lambda x: torch.softmax(x, -1)
    norm = lambda x, w, b: F.layer_norm(x, (768,), w, b)
    norm_inputs = lambda: (numbers(4096, 768), numbers(768, start=3), numbers(768, start=5))
    entropy = lambda: (lambda x, y=classes(512, 32000): F.cross_entropy(x, y))
    fused = lambda: (numbers(512, 768), numbers(768, 768, start=3), numbers(768, start=5), numbers(512, 768, start=9))
    return torch.__version__ + ", " + torch.backends.cpu.get_cpu_capability(), lambda t: t.detach().float().numpy(), {
        "P1 gelu(x w + b) [32,768]": lambda: gelu_row(32, 768),
        "P1 gelu(x w + b) [1024,768]": lambda: gelu_row(1024, 768),
        "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e5": lambda: chain_row(100000),
        "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e7": lambda: chain_row(10000000),
        "P2 relu(x w + b) [8192,4096]": lambda: relu_row(torch.float32),
        "D1 dropout(relu(x w + b)) [8192,1024]": lambda: dropout_row(False),
        "D1 dropout(relu(x w + b)) forward + backward [8192,1024]": lambda: dropout_row(True),
        "P3 softmax [1024,1024]": lambda: plain(soft, numbers(1024, 1024, scale=8)),
        "P3 log_softmax [1024,1024]": lambda: plain(lambda x: torch.log_softmax(x, -1), numbers(1024, 1024, scale=8)),
        "P3 layer_norm [4096,768]": lambda: plain(norm, *norm_inputs()),
        "P3 rms_norm by hand [4096,768]": lambda: plain(rms, numbers(4096, 768)),
        "P3 cross_entropy [512,32000]": lambda: plain(entropy(), numbers(512, 32000, scale=8)),
        "P3 softmax forward + backward [1024,1024]": lambda: backward_of(soft, numbers(1024, 1024, scale=8)),
        "P3 layer_norm forward + backward [4096,768]": lambda: backward_of(norm, *norm_inputs()),
        "P3 cross_entropy forward + backward [512,32000]": lambda: backward_of(entropy(), numbers(512, 32000, scale=8)),
        "P4 sum over dim 1 [4096,4096]": lambda: plain(lambda x: x.sum(1), numbers(4096, 4096)),
        "P4 sum over dim 0 [4096,4096]": lambda: plain(lambda x: x.sum(0), numbers(4096, 4096)),
        "P6 product [512,768] [768,768]": lambda: plain(torch.matmul, *fused()[:2]),
        "P6 product + bias, gelu, residual": lambda: plain(lambda x, w, b, r: F.gelu(x.matmul(w) + b) + r, *fused()),
        "P7 attention S 128": lambda: attention_row(128),
        "P7 attention S 512": lambda: attention_row(512),
        "P7 attention S 2048": lambda: attention_row(2048),
        "P7 attention S 4096": lambda: attention_row(4096),
        "P7 attention forward + backward S 128": lambda: attention_row(128, True),
        "P7 attention forward + backward S 512": lambda: attention_row(512, True),
        "P7 attention forward + backward S 2048": lambda: attention_row(2048, True),
        "P7 attention forward + backward S 4096": lambda: attention_row(4096, True),
        "P7 attention S 128 (fused)": lambda: attention_row(128, fused=True),
        "P7 attention S 512 (fused)": lambda: attention_row(512, fused=True),
        "P7 attention S 2048 (fused)": lambda: attention_row(2048, fused=True),
        "P7 attention S 4096 (fused)": lambda: attention_row(4096, fused=True),
        "P7 attention forward + backward S 128 (fused)": lambda: attention_row(128, True, True),
        "P7 attention forward + backward S 512 (fused)": lambda: attention_row(512, True, True),
        "P7 attention forward + backward S 2048 (fused)": lambda: attention_row(2048, True, True),
        "P7 attention forward + backward S 4096 (fused)": lambda: attention_row(4096, True, True),
        **window_rows(convolution_row, lambda: numbers(32, 64, 56, 56), plain, backward_of, pool),
        "P8 MLP step, batch 64, SGD": lambda: mlp_row(64, False),
        "P8 MLP step, batch 64, AdamW": lambda: mlp_row(64, True),
        "P8 MLP step, batch 512, AdamW": lambda: mlp_row(512, True),
        "P8 transformer step": transformer_row,
        "P16 relu(x w + b) [8192,4096] bfloat16": lambda: relu_row(torch.bfloat16),
        "P16 relu(x w + b) [8192,4096] float16": lambda: relu_row(torch.float16),
        "P16 product [512,768] [768,1024] float32": lambda: product_row(torch.float32),
        "P16 product [512,768] [768,1024] bfloat16": lambda: product_row(torch.bfloat16),
        "P16 product [512,768] [768,1024] float16": lambda: product_row(torch.float16),
    }


# ---- jax ---------------------------------------------------------------------------------------------------------------------------
def jax_rows():
    import jax
    import jax.numpy as jnp

    def numbers(*sizes, start=0, scale=1.0):
        return jnp.asarray(raw(*sizes, start=start, scale=scale))

    def plain(f, *inputs):
        g = jax.jit(f)
        return lambda: [g(*inputs).block_until_ready()], None, 1

    def backward_of(f, *inputs):
        def both(*inputs):
            y, back = jax.vjp(f, *inputs)
            return [y, *back(y)]

        g = jax.jit(both)
        return lambda: jax.block_until_ready(g(*inputs)), None, 1

    def attention(q, k, v):
        scores = q @ k.swapaxes(-2, -1) * 0.125
        at = jnp.arange(q.shape[-2])
        return jax.nn.softmax(jnp.where(at[None, :] > at[:, None], -jnp.inf, scores), -1) @ v

    def attention_row(length, backward=False):
        inputs = numbers(2, 8, length, 64, scale=4), numbers(2, 8, length, 64, start=77, scale=4), numbers(2, 8, length, 64, start=99)
        return backward_of(attention, *inputs) if backward else plain(attention, *inputs)

    def entropy(x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), y[:, None], 1).mean()

    def linear(x, w, b):
        return x @ w.T + b

    def norm(x, w, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

    def made(shapes):
        return [numbers(*s, start=(i + 1) * 7919) * np.float32(1 / math.sqrt(s[-1]) if len(s) > 1 else 0.02) for i, s in enumerate(shapes)]

    def training(parameters, loss, adamw):
        def step(parameters, moments, count):
            value, gradients = jax.value_and_grad(loss)(parameters)
            if not adamw:
                return value, [p - 0.05 * g for p, g in zip(parameters, gradients)], moments, count
            count = count + 1
            first = [0.9 * m + 0.1 * g for (m, _), g in zip(moments, gradients)]
            second = [0.999 * v + 0.001 * g * g for (_, v), g in zip(moments, gradients)]
            scale = 1 / (1 - 0.9**count)
            root = jnp.sqrt(1 - 0.999**count)
            new = [p * (1 - 1e-3 * 0.01) - 1e-3 * scale * m / (jnp.sqrt(v) / root + 1e-8) for p, m, v in zip(parameters, first, second)]
            return value, new, list(zip(first, second)), count

        f = jax.jit(step, donate_argnums=(0, 1))
        state = [parameters, [(jnp.zeros_like(p), jnp.zeros_like(p)) for p in parameters], jnp.float32(0)]

        def run():
            value, *new = f(*state)
            state[:] = new
            jax.block_until_ready(state[0])
            return [value]

        return run, lambda: state[0], 3

    def mlp_row(batch, adamw):
        x, y = numbers(batch, 784), jnp.asarray(raw_classes(batch, 10))

        def loss(p):
            return entropy(linear(jax.nn.relu(linear(jax.nn.relu(linear(x, p[0], p[1])), p[2], p[3])), p[4], p[5]), y)

        return training(made([(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)]), loss, adamw)

    def transformer_row():
        tokens, target = jnp.asarray(raw_classes(1024, 512)).reshape(8, 128), jnp.asarray(raw_classes(1024, 512, 5))
        shapes = [(512, 256), (128, 256), (256,), (256,), (768, 256), (768,), (256, 256), (256,), (256,), (256,), (1024, 256), (1024,), (256, 1024), (256,), (256,), (256,), (512, 256), (512,)]
        parameters = made(shapes)
        for i in (2, 8, 14):
            parameters[i] = jnp.ones(256, jnp.float32)

        def loss(p):
            x = p[0][tokens] + p[1]
            q, k, v = (t.reshape(8, 128, 4, 64).swapaxes(1, 2) for t in jnp.split(linear(norm(x, p[2], p[3]), p[4], p[5]), 3, -1))
            x = x + linear(attention(q, k, v).swapaxes(1, 2).reshape(8, 128, 256), p[6], p[7])
            x = x + linear(jax.nn.gelu(linear(norm(x, p[8], p[9]), p[10], p[11]), approximate=False), p[12], p[13])
            return entropy(linear(norm(x, p[14], p[15]), p[16], p[17]).reshape(1024, 512), target)

        return training(parameters, loss, True)

    def gelu_row(*sizes):
        return plain(lambda x, w, b: jax.nn.gelu(x * w + b, approximate=False), numbers(*sizes, scale=4), numbers(sizes[-1], start=3), numbers(sizes[-1], start=5))

    def chain_row(n):
        return plain(lambda x: jnp.tanh(jnp.sin(x) * 2 + 1) * jax.nn.sigmoid(x), numbers(n, scale=4))

    def relu_row(dtype):
        inputs = [t.astype(dtype) for t in (numbers(8192, 4096), numbers(4096, start=3), numbers(4096, start=5))]
        return plain(lambda x, w, b: jax.nn.relu(x * w + b), *inputs)

    def convolution_row(batch, channels, extent, groups=1, backward=False):
        inputs = numbers(batch, channels, extent, extent), numbers(channels, channels // groups, 3, 3, start=3)
        f = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), feature_group_count=groups)
        return backward_of(f, *inputs) if backward else plain(f, *inputs)

    pool = lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))

    def product_row(dtype):
        return plain(jnp.matmul, numbers(512, 768).astype(dtype), numbers(768, 1024, start=3).astype(dtype))

    soft = lambda x: jax.nn.softmax(x, -1)
    norm_inputs = lambda: (numbers(4096, 768), numbers(768, start=3), numbers(768, start=5))
    labels = lambda: jnp.asarray(raw_classes(512, 32000))
    fused = lambda: (numbers(512, 768), numbers(768, 768, start=3), numbers(768, start=5), numbers(512, 768, start=9))
    return jax.__version__ + ", XLA for this processor", lambda t: np.asarray(t.astype(jnp.float32)), {
        "P1 gelu(x w + b) [32,768]": lambda: gelu_row(32, 768),
        "P1 gelu(x w + b) [1024,768]": lambda: gelu_row(1024, 768),
        "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e5": lambda: chain_row(100000),
        "P1 tanh(sin(x) 2 + 1) sigmoid(x) 1e7": lambda: chain_row(10000000),
        "P2 relu(x w + b) [8192,4096]": lambda: relu_row(jnp.float32),
        "P3 softmax [1024,1024]": lambda: plain(soft, numbers(1024, 1024, scale=8)),
        "P3 log_softmax [1024,1024]": lambda: plain(lambda x: jax.nn.log_softmax(x, -1), numbers(1024, 1024, scale=8)),
        "P3 layer_norm [4096,768]": lambda: plain(norm, *norm_inputs()),
        "P3 rms_norm by hand [4096,768]": lambda: plain(lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5), numbers(4096, 768)),
        "P3 cross_entropy [512,32000]": lambda: plain(entropy, numbers(512, 32000, scale=8), labels()),
        "P3 softmax forward + backward [1024,1024]": lambda: backward_of(soft, numbers(1024, 1024, scale=8)),
        "P3 layer_norm forward + backward [4096,768]": lambda: backward_of(norm, *norm_inputs()),
        "P3 cross_entropy forward + backward [512,32000]": lambda: (lambda y: backward_of(lambda x: entropy(x, y), numbers(512, 32000, scale=8)))(labels()),
        "P4 sum over dim 1 [4096,4096]": lambda: plain(lambda x: x.sum(1), numbers(4096, 4096)),
        "P4 sum over dim 0 [4096,4096]": lambda: plain(lambda x: x.sum(0), numbers(4096, 4096)),
        "P6 product [512,768] [768,768]": lambda: plain(jnp.matmul, *fused()[:2]),
        "P6 product + bias, gelu, residual": lambda: plain(lambda x, w, b, r: jax.nn.gelu(x @ w + b, approximate=False) + r, *fused()),
        "P7 attention S 128": lambda: attention_row(128),
        "P7 attention S 512": lambda: attention_row(512),
        "P7 attention S 2048": lambda: attention_row(2048),
        "P7 attention S 4096": lambda: attention_row(4096),
        "P7 attention forward + backward S 128": lambda: attention_row(128, True),
        "P7 attention forward + backward S 512": lambda: attention_row(512, True),
        "P7 attention forward + backward S 2048": lambda: attention_row(2048, True),
        "P7 attention forward + backward S 4096": lambda: attention_row(4096, True),
        **window_rows(convolution_row, lambda: numbers(32, 64, 56, 56), plain, backward_of, pool),
        "P8 MLP step, batch 64, SGD": lambda: mlp_row(64, False),
        "P8 MLP step, batch 64, AdamW": lambda: mlp_row(64, True),
        "P8 MLP step, batch 512, AdamW": lambda: mlp_row(512, True),
        "P8 transformer step": transformer_row,
        "P16 relu(x w + b) [8192,4096] bfloat16": lambda: relu_row(jnp.bfloat16),
        "P16 relu(x w + b) [8192,4096] float16": lambda: relu_row(jnp.float16),
        "P16 product [512,768] [768,1024] float32": lambda: product_row(jnp.float32),
        "P16 product [512,768] [768,1024] bfloat16": lambda: product_row(jnp.bfloat16),
        "P16 product [512,768] [768,1024] float16": lambda: product_row(jnp.float16),
    }


# ---- commands ------------------------------------------------------------------------------------------------------------------------
def samples(results):
    out = []
    for values in results:
        flat = values.reshape(-1)
        out += [repr(float(v)) for v in flat[:: max(1, flat.size // 8)]]
    return out


def main():
    version, as_numbers, rows = torch_rows() if kind.startswith("torch") else jax_rows()
    run, repeat = None, 1
    for line in sys.stdin:
        line = line.rstrip("\n")
        try:
            if line == "about":
                print(f"{kind} {version}, {threads} thread(s)")
            elif line.startswith("prepare "):
                run = None
                if line[8:] not in rows:
                    print("no such row", flush=True)
                    continue
                run, state, steps = rows[line[8:]]()
                for _ in range(steps):
                    results = run()
                numbers = [as_numbers(t) for t in results + (state() if state else [])]
                text = samples(numbers)
                for _ in range(5):
                    run()
                start = clock()
                run()
                repeat = max(1, int(4e-3 / max(clock() - start, 1e-7)))
                print("ok 0", len(text), *text)
            elif line == "time" and run:
                start = clock()
                for _ in range(repeat):
                    run()
                print((clock() - start) / repeat)
            else:
                print("no such command")
        except Exception as problem:
            run = None
            print("no", type(problem).__name__, str(problem).split("\n")[0])
        sys.stdout.flush()


main()
