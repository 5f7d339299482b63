# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model from random weights on images that are drawn during training.

    python3 train.py MODEL_FOLDER OUTPUT_FOLDER --seconds 590 --total 1190 --state STATE_FILE

MODEL_FOLDER has tokenizer.json. The learning rate follows the share of --total seconds that training has taken, so
training can be split into several calls. Each loads STATE_FILE if it exists, writes it for the next, and writes the
weights in BF16 to OUTPUT_FOLDER for export.py. --start continues from such weights with a new schedule of --total
seconds, of which --spent have passed, and with printed words of full difficulty.

One row of a batch is an image followed by several independent questions and answers ("branches"). Each branch sees only
the image and itself, and has the positions that it would have as the only question. So an image is encoded once for all
of its questions. A few branches have two turns, and a few are questions without an image.

In some batches ("late") text comes before the image: the question itself, as several chat clients send it, a system
prompt, or a turn without an image. If it is the question, all branches see its answer and are the turns after it.
"""
import argparse
import collections
import functools
import glob
import math
import multiprocessing
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import model as network
from checkpoint import dequantised
from draw import model_size, strange_image, training_image
from questions import SYSTEM, ask_many, talk_without_image

TOKEN = 32  # pixels a side of an image token
LONGEST_SHAPE = 4  # the largest ratio of length to width of a grid in training
ANY_GRID_SHARE = 0.25  # share of batches with any possible grid; the others have common ones
MOST_SHAPE = 2.2
SMALLEST_AREA, LARGEST_AREA = 40000, 400000  # pixels; the model sees 65,536 to 131,072
TEXT_ROOM = 203  # tokens for the branches of a row
LEAST_AND_MOST = 64, 128  # tokens of an image
LENGTH_STEP = 8  # attention kernels need rows of such a multiple
ASK, ANSWER, END = '<|im_start|>user\n', '<|im_start|>assistant\n', '<|im_end|>'
SYSTEM_START, VISION_START = '<|im_start|>system\n', '<|vision_start|>'
LATE_ROOM = 48  # additional tokens before the image of a late batch, a multiple of 8
LATE_SHARE, STRANGE_SHARE = 0.4, 0.04
EASY_UNTIL = 0.4  # share of the training after which printed words have full difficulty
MUON_RATE, ADAM_RATE, WARM_UP = 3e-3, 1.5e-3, 300
WEIGHT_SHARDS = 3
REPORT_EVERY = 200
APART = 32  # number of batches between the two uses of one


def all_grids():
    """Returns every grid of tokens (width, height) that a resized image can have, except very long ones."""
    sides = range(1, 1 + LEAST_AND_MOST[1])
    return [(wide, high) for wide in sides for high in sides
            if LEAST_AND_MOST[0] <= wide * high <= LEAST_AND_MOST[1]
            and max(wide, high) <= LONGEST_SHAPE * min(wide, high)]


def draw_grid(rng):
    """Returns a random grid for a batch."""
    if rng.random() < ANY_GRID_SHARE:
        return rng.choice(all_grids())
    shape = math.exp(rng.uniform(-1, 1) * math.log(MOST_SHAPE))
    area = math.exp(rng.uniform(math.log(SMALLEST_AREA), math.log(LARGEST_AREA)))
    wide, high = model_size(math.sqrt(area * shape), math.sqrt(area / shape))
    return wide // TOKEN, high // TOKEN


class Rows:
    """Turns images and their questions into rows of tokens, targets, weights, positions and branch numbers."""

    def __init__(self, folder):
        tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
        self.encode = functools.lru_cache(200000)(lambda text: tuple(tokenizer.encode(text).ids))
        self.image = tokenizer.token_to_id('<|image_pad|>')
        self.prefix = self.encode(ASK + VISION_START)
        self.end = self.encode('<|vision_end|>')
        self.after = self.encode(END + '\n' + ANSWER)

    def turn(self, question, answer, opening=()):
        """Returns the tokens of one turn, and for each whether the model has to write it."""
        asked = opening + self.encode(question) + self.after
        said = self.encode(answer + END)
        return asked + said, (False,) * len(asked) + (True,) * len(said)

    def branch(self, rng, questions, opening):
        """Returns the tokens, whether the model has to write each, and whether the branch sees the image."""
        if rng.random() < 0.012:
            return *self.turn(*talk_without_image(rng), opening=self.encode(ASK)), False
        tokens, said = self.turn(*next(questions), opening)
        if rng.random() < 0.12:
            more, more_said = self.turn(*next(questions), opening=self.encode('\n' + ASK))
            tokens, said = tokens + more, said + more_said
        return tokens, said, True

    def opening(self, rng, questions):
        """Returns the tokens before the image of a late row, and (question, answer) if they ask a question."""
        kind, text, turn = rng.random(), '', None
        if kind > 0.55:
            question, answer = talk_without_image(rng)
            earlier = f'{ASK}{question}{END}\n{ANSWER}{answer}{END}\n'
            text = earlier if kind > 0.8 else f'{SYSTEM_START}{rng.choice(SYSTEM)}{END}\n'
        text += ASK
        if kind < 0.7 or kind > 0.9:
            turn = next(questions)
            text += turn[0]
        return self.encode(text + VISION_START), turn

    def start(self, late, grid):
        """Returns the position of the image in every row of a batch. Unused tokens before it pad the row's length."""
        start = len(self.prefix) + (LATE_ROOM if late else 0)
        return start + -(start + grid[0] * grid[1] + 1 + TEXT_ROOM) % LENGTH_STEP

    def row(self, rng, scene, grid, late):
        wide, high = grid
        questions, before, turn = ask_many(rng, scene), self.prefix, None
        count, start = wide * high, self.start(late, grid)
        while late and (len(before) > start or before is self.prefix):
            before, turn = self.opening(rng, questions)
        length, pad = start + count + 1 + TEXT_ROOM, start - len(before)
        ids, targets = np.zeros(length, np.int64), np.zeros(length, np.int64)
        weights, branches = np.zeros(length, np.float32), np.zeros(length, np.int64)
        positions = np.zeros((3, length), np.int64)
        branches[:pad] = 1
        ids[pad:start], ids[start:start + count], ids[start + count] = before, self.image, self.end[0]
        positions[:, pad:start] = np.arange(len(before))
        cell = np.arange(count)
        positions[:, start:start + count] = len(before) + np.stack((0 * cell, cell // wide, cell % wide))
        base = len(before) + max(wide, high)
        positions[:, start + count] = base
        place, number, misses, opening = start + count + 1, 1, 0, ()

        def put(tokens, said, first, branch):
            stop = place + len(tokens)
            ids[place:stop] = tokens
            targets[place:stop - 1] = tokens[1:]
            weights[place:stop - 1] = np.array(said[1:]) / math.sqrt(sum(said))
            positions[:, place:stop] = np.arange(len(tokens)) + first
            branches[place:stop] = branch
            return stop

        if turn:
            answer = self.encode(turn[1] + END)
            tokens = self.after + answer
            place = put(tokens, (False,) * len(self.after) + (True,) * len(answer), base + 1, 0)
            base += len(tokens)
            opening = self.encode('\n' + ASK)
        while misses < 3:
            tokens, said, sees = self.branch(rng, questions, opening)
            if place + len(tokens) > length:
                misses += 1
                continue
            place = put(tokens, said, base + 1 if sees else 0, 2 * number + (not sees))
            number += 1
        branches[place:] = 2 * number + 1
        return ids, targets, weights, positions, branches


class Batches(IterableDataset):
    """Batches of newly drawn images. progress: a shared number from 0 to 1, with which text gets harder."""

    def __init__(self, folder, size, name, progress, easy_until):
        self.folder, self.size, self.name, self.progress, self.easy_until = folder, size, name, progress, easy_until

    def __iter__(self):
        rows = Rows(self.folder)
        rng = random.Random(f'{self.name} {get_worker_info().id}')
        while True:
            grid = draw_grid(rng)
            images, columns = [], []
            late = rng.random() < LATE_SHARE
            for _ in range(self.size):
                hardest = min(1.0, 0.15 + self.progress.value / self.easy_until)
                size = TOKEN * grid[0], TOKEN * grid[1]
                scene, image = (strange_image(rng, *size) if rng.random() < STRANGE_SHARE else
                                training_image(rng, *size, hardest * rng.uniform(0.3, 1)))
                images.append(np.asarray(image))
                columns.append(rows.row(rng, scene, grid, late))
            ids, targets, weights, positions, branches = (torch.from_numpy(np.stack(c)) for c in zip(*columns))
            positions = positions.transpose(0, 1).contiguous()
            pixels = torch.from_numpy(np.stack(images))
            yield (grid, rows.start(late, grid)), pixels, ids, targets, weights, positions, branches


def orthogonalised(x):
    """Muon's Newton-Schulz iteration: returns matrices with the same singular vectors and singular values near one."""
    x = x.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if tall else x).float()


class Muon:
    """Momentum with orthogonalized steps for the matrices of the blocks. Matrices of equal shape form one batch."""

    def __init__(self, matrices):
        self.groups = {}
        for weight in matrices:
            self.groups.setdefault(tuple(weight.shape), []).append(weight)
        self.momentum = {shape: torch.zeros(len(group), *shape, device=group[0].device)
                         for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, rate, decay=0.01, beta=0.95):
        for shape, group in self.groups.items():
            gradient, momentum = torch.stack([weight.grad for weight in group]), self.momentum[shape]
            momentum.lerp_(gradient, 1 - beta)
            ahead = gradient.lerp_(momentum, beta)
            if shape[0] == 3 * shape[1]:  # the vision encoder's joint query, key and value matrix
                ahead = orthogonalised(ahead.view(-1, shape[1], shape[1])).view(ahead.shape)
                scale = 0.2 * math.sqrt(shape[1])
            else:
                ahead, scale = orthogonalised(ahead), 0.2 * math.sqrt(max(shape))
            torch._foreach_mul_(group, 1 - rate * decay)
            torch._foreach_add_(group, list(ahead.unbind(0)), alpha=-rate * scale)


class Optimizer:
    """Muon for the blocks' matrices, AdamW for the rest. All gradients are in one flat buffer."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.flat = torch.zeros(sum(p.numel() for p in self.parameters), device=self.parameters[0].device)
        offset = 0
        for parameter in self.parameters:
            parameter.grad = self.flat[offset:offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
        named = list(model.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and 'embed' not in name]
        chosen = {id(p) for p in matrices}
        others = [p for _, p in named if id(p) not in chosen]
        groups = [{'params': [p for p in others if p.ndim > 1], 'weight_decay': 0.01},
                  {'params': [p for p in others if p.ndim == 1], 'weight_decay': 0.0}]
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(groups, lr=ADAM_RATE, betas=(0.9, 0.98), fused=True)

    def step(self, share):
        """Takes a step with a share of the full learning rates. If the gradients' norm is not finite, all count as zero."""
        norm = self.flat.norm()
        self.flat.nan_to_num_(0, 0, 0)
        self.flat.mul_(torch.where(norm.isfinite(), (1 / (norm + 1e-6)).clamp(max=1), 0))
        for group in self.adam.param_groups:
            group['lr'] = ADAM_RATE * share
        self.adam.step()
        self.muon.step(MUON_RATE * share)
        self.flat.zero_()

    def state(self):
        return {'adam': self.adam.state_dict(), 'muon': self.muon.momentum}

    def load(self, state):
        self.adam.load_state_dict(state['adam'])
        self.muon.momentum = state['muon']


def branch_mask(branches):
    """Returns an additive mask, batch x 1 x length x length: a token sees earlier ones of its branch, and the image
    if its branch does."""
    length = branches.shape[1]
    query, key = branches[:, :, None], branches[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool, device=branches.device).tril()
    allowed = causal & ((query == key) | ((key == 0) & (query % 2 == 0)))
    mask = torch.zeros(allowed.shape, device=branches.device, dtype=torch.bfloat16)
    return mask.masked_fill_(~allowed, -1e9)[:, None]


@functools.partial(torch.compile, dynamic=False)
def weighted_loss(hidden, embedding, targets, weights):
    losses = F.cross_entropy(F.linear(hidden, embedding.to(hidden.dtype)).float().flatten(0, 1), targets.flatten(),
                             reduction='none')
    return (losses * weights.flatten()).sum() / weights.sum()


def compile_blocks(dynamic):
    """Compiles one block of each kind, which all layers of that kind share."""
    torch._dynamo.config.recompile_limit = 64
    for kind in (network.VisionBlock, network.TextLayer, network.Merger):
        kind.forward = torch.compile(kind.forward, dynamic=dynamic)


def save_weights(model, folder):
    """Writes the weights in BF16, in a few files of about equal size."""
    tensors = {name: value.to(torch.bfloat16).contiguous().cpu() for name, value in model.state_dict().items()}
    os.makedirs(folder, exist_ok=True)
    names = sorted(tensors)
    for shard in range(WEIGHT_SHARDS):
        part = {name: tensors[name] for name in names[shard::WEIGHT_SHARDS]}
        save_file(part, os.path.join(folder, f'weights-{shard + 1}.safetensors'), metadata={'format': 'pt'})


def load_weights(folder):
    """Returns the weights of save_weights or of an exported checkpoint."""
    if os.path.exists(os.path.join(folder, 'model.safetensors.index.json')):
        return {name: torch.from_numpy(np.array(value)) for name, value in dequantised(folder).items()}
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, 'weights-*.safetensors'))):
        tensors.update(load_file(path))
    return tensors


def used_twice(batches):
    """Yields each batch twice, the second time APART batches later."""
    waiting = collections.deque()
    for batch in batches:
        yield batch
        waiting.append(batch)
        if len(waiting) > APART:
            yield waiting.popleft()


def learning_share(step, progress):
    return min(1.0, step / WARM_UP) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('model', help='folder with tokenizer.json')
    parser.add_argument('output', help='folder for the weights')
    parser.add_argument('--seconds', type=float, required=True, help='how long this call trains before it saves')
    parser.add_argument('--total', type=float, required=True, help='training time of all calls')
    parser.add_argument('--state', required=True, help='file with the state: read if it exists, then written')
    parser.add_argument('--start', help='folder of weights or a checkpoint to continue from')
    parser.add_argument('--spent', type=float, default=0, help='seconds of --total that the weights of --start have')
    parser.add_argument('--twice', action='store_true', help='train on each batch twice, if few processors draw')
    parser.add_argument('--batch', type=int, default=160, help='images in a batch')
    parser.add_argument('--workers', type=int, default=14, help='processes that draw')
    parser.add_argument('--dynamic', action='store_true', help='compile once for all image sizes')
    return parser.parse_args()


class Trainer:
    """The model, its optimizer and the progress of training."""

    def __init__(self, options):
        self.options, self.begin = options, time.time()
        torch.manual_seed(0)
        config = network.load_config()
        self.model = network.DemoModel(config).cuda()
        self.optimizer = Optimizer(self.model)
        self.step, self.spent, self.run = 0, options.spent, 0
        self.load()
        compile_blocks(options.dynamic)
        self.progress = multiprocessing.Value('d', self.spent / options.total)
        self.tables = functools.lru_cache(None)(
            lambda grid: network.vision_tables(config['vision_config'], 2 * grid[1], 2 * grid[0], 'cuda'))

    def load(self):
        """Loads the weights of --start and the state of an earlier call, if there are any."""
        if self.options.start:
            self.model.load_state_dict(load_weights(self.options.start))
        if os.path.exists(self.options.state):
            state = torch.load(self.options.state, map_location='cuda')
            self.model.load_state_dict(state['model'])
            self.optimizer.load(state['optimizer'])
            self.step, self.spent, self.run = state['step'], state['spent'], state['run'] + 1

    def save(self):
        self.spent += self.seconds()
        save_weights(self.model, self.options.output)
        state = {'model': self.model.state_dict(), 'optimizer': self.optimizer.state(), 'step': self.step,
                 'spent': self.spent, 'run': self.run}
        os.makedirs(os.path.dirname(os.path.abspath(self.options.state)), exist_ok=True)
        torch.save(state, self.options.state)
        print(f'saved after {self.step} steps, {self.spent:.0f} s in all', flush=True)

    def seconds(self):
        return time.time() - self.begin

    def batches(self):
        options = self.options
        name, easy_until = (f'later {options.spent:.0f}', 1e-6) if options.start else ('training', EASY_UNTIL)
        drawn = Batches(options.model, options.batch, f'{name} {self.run}', self.progress, easy_until)
        return DataLoader(drawn, batch_size=None, pin_memory=True, num_workers=options.workers, prefetch_factor=2)

    def one_step(self, place, batch):
        """Trains on one batch and returns its loss, which stays on the GPU. place: the image's grid and position."""
        grid, start = place
        pixels, ids, targets, weights, positions, branches = (part.cuda(non_blocking=True) for part in batch)
        with torch.autocast('cuda', torch.bfloat16):
            hidden = self.model(pixels, ids, positions, branch_mask(branches), start, self.tables(tuple(grid)))
            text = slice(start + grid[0] * grid[1] + 1, None)
            embedding = self.model.model.language_model.embed_tokens.weight
            loss = weighted_loss(hidden[:, text], embedding, targets[:, text], weights[:, text])
        loss.backward()
        self.progress.value = min(1.0, (self.spent + self.seconds()) / self.options.total)
        self.optimizer.step(learning_share(self.step, self.progress.value))
        self.step += 1
        return loss.detach()

    def train(self):
        total, marked, counted = 0.0, time.time(), 0
        for place, *batch in used_twice(self.batches()) if self.options.twice else self.batches():
            total, counted = total + self.one_step(place, batch), counted + 1
            if counted == REPORT_EVERY:
                pace = 1000 * (time.time() - marked) / counted
                print(f'{self.seconds():.0f} s, step {self.step}, loss {total.item() / counted:.4f}, '
                      f'{pace:.1f} ms a step', flush=True)
                total, marked, counted = 0.0, time.time(), 0
            if self.seconds() >= self.options.seconds or self.progress.value >= 1:
                return


if __name__ == '__main__':
    trainer = Trainer(parse_arguments())
    trainer.train()
    trainer.save()
    os._exit(0)  # without waiting for the processes that draw
