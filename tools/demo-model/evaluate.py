# SPDX-License-Identifier: Apache-2.0
"""Measures the exported model with transformers on images whose seeds training does not use.

    python3 evaluate.py MODEL_FOLDER [--cases N] [--seed TEXT] [--write FOLDER] [--report FILE]

--sizes chooses the sizes of images: any (200 to 640 pixels a side), photo (those of cameras, phones and screens), or
grid (grids of tokens on which the first models were not trained). --write saves the images and cases.json (file, task,
question, answer), with which another program can be measured. --plain measures without transformers
(float32_reference.py). --last puts the image after the question.
"""
import argparse
import functools
import json
import multiprocessing
import os
import random

from draw import finished_image, strange_image
from questions import (DETECT, ask_caption, ask_color, ask_count_all, ask_count_some, ask_detect, ask_exists, ask_place,
                       ask_side, ask_stranger, boxes, caption, talk_without_image)
from scores import score
from words import HELD_OUT, change_case, random_word

BATCH = 150
TOKEN = 32
PHOTOS = ((4000, 3000), (3000, 4000), (4032, 3024), (3024, 4032), (1920, 1080), (1080, 1920), (3000, 2000),
          (2048, 2048), (1170, 2532), (2560, 1440), (1600, 1200), (1280, 960))
FIRST_GRIDS = ((8, 8), (16, 4), (9, 8), (8, 9), (12, 6), (6, 12), (12, 8), (8, 12), (12, 10), (10, 12), (15, 8),
               (8, 15))
OTHER_GRIDS = [(wide, high) for wide in range(5, 17) for high in range(5, 17)
               if 64 <= wide * high <= 128 and (wide, high) not in FIRST_GRIDS]
DESCRIBE, READ = 'Describe this image.', 'Read all the text in the image.'


def any_size(rng):
    """Returns a common image size: 200 to 640 pixels a side, at most twice as long as wide."""
    while True:
        width, height = rng.randint(200, 640), rng.randint(200, 640)
        if max(width, height) <= 2 * min(width, height):
            return width, height


def photo_size(rng):
    return rng.choice(PHOTOS)


def grid_size(rng):
    wide, high = rng.choice(OTHER_GRIDS)
    return TOKEN * wide, TOKEN * high


SIZES = {'any': any_size, 'photo': photo_size, 'grid': grid_size}


def chosen_size(rng):
    """Returns a size of the kind that --sizes chose. The processes that draw find the kind in their environment."""
    return SIZES[os.environ.get('DEMO_SIZES', 'any')](rng)


def until_asked(rng, ask, kind='shapes'):
    """Draws images until `ask` has a question about one. Returns the image, the question and the answer."""
    while True:
        scene, image = finished_image(rng, *chosen_size(rng), kind=kind)
        pair = ask(rng, scene)
        if pair:
            return image, *pair


def words_case(rng, count, draw=lambda rng: random_word(rng, 10)):
    words = [draw(rng) for _ in range(rng.choice(count))]
    rows = [' '.join(words)] if len(words) == 1 or rng.random() < 0.5 else words[:-1] + words[-1:]
    if len(words) > 2:
        rows = [' '.join(words[i::3]) for i in range(3)]
    scene, image = finished_image(rng, *chosen_size(rng), kind='text', rows=rows)
    return image, READ, scene.text


def unseen_word(rng):
    return change_case(rng, rng.choice(HELD_OUT))


def ask_description(rng, scene):
    return DESCRIBE, caption(scene)


def ask_one_name(rng, scene):
    name = rng.choice(scene.shapes).name
    return DETECT.format(name), boxes(scene, [name])


def ask_one_kind(rng, scene):
    kind = rng.choice(scene.shapes).kind
    return DETECT.format(kind), boxes(scene, [kind])


def strange_case(rng):
    scene, image = strange_image(rng, *chosen_size(rng))
    return image, *ask_stranger(rng, scene)


TASKS = {
    'caption of shapes': lambda rng: until_asked(rng, ask_description),
    'caption of words': lambda rng: until_asked(rng, ask_description, 'text'),
    'caption of shapes and a word': lambda rng: until_asked(rng, ask_description, 'both'),
    'caption, paraphrased question': lambda rng: until_asked(rng, ask_caption),
    'count of all shapes': lambda rng: until_asked(rng, ask_count_all),
    'count of some shapes': lambda rng: until_asked(rng, ask_count_some),
    'colour': lambda rng: until_asked(rng, ask_color),
    'boxes of one colour and shape': lambda rng: until_asked(rng, ask_one_name),
    'boxes of one shape': lambda rng: until_asked(rng, ask_one_kind),
    'boxes, all kinds of question': lambda rng: until_asked(rng, ask_detect),
    'reading one or two words': lambda rng: words_case(rng, (1, 2)),
    'reading one word never trained on': lambda rng: words_case(rng, (1,), unseen_word),
    'reading three to six words': lambda rng: words_case(rng, (3, 4, 5, 6)),
    'is it there': lambda rng: until_asked(rng, ask_exists),
    'which is where': lambda rng: until_asked(rng, ask_place),
    'which side': lambda rng: until_asked(rng, ask_side),
    'something that it does not know': strange_case,
    'talk without a picture': lambda rng: (None, *talk_without_image(rng))}


def make_case(seed, task, index):
    return TASKS[task](random.Random(f'{seed} {task} {index}'))


def make_cases(seed, count, tasks):
    with multiprocessing.Pool() as pool:
        return {task: pool.map(functools.partial(make_case, seed, task), range(count)) for task in tasks}


def write_cases(cases, folder):
    """Saves the images as PNG files and the questions with their true answers as cases.json."""
    os.makedirs(folder, exist_ok=True)
    listed = []
    for number, (task, rows) in enumerate(cases.items()):
        for index, (image, question, answer) in enumerate(rows):
            name = f'{number:02d}-{index:04d}.png' if image else None
            if image:
                image.save(os.path.join(folder, name))
            listed.append({'file': name, 'task': task, 'question': question, 'answer': answer})
    with open(os.path.join(folder, 'cases.json'), 'w') as file:
        json.dump(listed, file, indent=1)


def load_reference(folder, plain):
    """Returns transformers' implementation, on a GPU if there is one, or the plain one."""
    if plain:
        from float32_reference import Float32Reference
        return Float32Reference(folder)
    import torch
    from reference import Reference
    torch.backends.cuda.matmul.allow_tf32 = False
    return Reference(folder, 'cuda' if torch.cuda.is_available() else 'cpu')


def measure(reference, cases, last):
    """Returns the scores and answers of the reference for every task."""
    scores, answers = {}, {}
    for task, rows in cases.items():
        said = []
        for at in range(0, len(rows), BATCH):
            part = rows[at:at + BATCH]
            said += reference.answers([row[0] for row in part], [row[1] for row in part], last)
        scores[task] = score(task, said, [row[2] for row in rows])
        answers[task] = said
        result = scores[task]
        extra = ', '.join(f'{key} {value}' for key, value in result.items() if key not in ('cases', 'right'))
        share = 100 * result['right'] / result['cases']
        print(f'{task}: {result["right"]} of {result["cases"]} = {share:.1f} % {extra}', flush=True)
        wrong = [(row[1], row[2], s) for row, s in zip(rows, said) if s != row[2]][:2]
        for question, true, false in wrong:
            print(f'    {question!r}: {true!r} -> {false!r}')
    return scores, answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('model')
    parser.add_argument('--cases', type=int, default=300, help='cases for each task')
    parser.add_argument('--seed', default='held out')
    parser.add_argument('--write', help='folder for the images and cases.json')
    parser.add_argument('--report', help='JSON file for the scores')
    parser.add_argument('--plain', action='store_true', help='use float32_reference.py and not transformers')
    parser.add_argument('--tasks', nargs='*', help='only these tasks, by name')
    parser.add_argument('--no-run', action='store_true', help='only draw the images')
    parser.add_argument('--last', action='store_true', help='put the image after the question')
    parser.add_argument('--sizes', choices=SIZES, default='any')
    options = parser.parse_args()
    os.environ['DEMO_SIZES'] = options.sizes
    cases = make_cases(options.seed, options.cases, options.tasks or TASKS)
    if options.write:
        write_cases(cases, options.write)
    if options.no_run:
        return
    scores, answers = measure(load_reference(options.model, options.plain), cases, options.last)
    if options.report:
        with open(options.report, 'w') as file:
            json.dump({'seed': options.seed, 'scores': scores}, file, indent=1)


if __name__ == '__main__':
    main()
