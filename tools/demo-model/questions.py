# SPDX-License-Identifier: Apache-2.0
"""Makes questions about a Scene, in the wording of eyelet's commands and in paraphrases, and their true answers."""
import json

from draw import COLORS, SHAPES

NUMBERS = ('None', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight')
GREETING = 'Hello! Show me a picture of coloured shapes or a printed word.'
ABOUT = 'I am a tiny demo model. I know coloured shapes and printed words.'
NO_IMAGE = 'Please show me a picture of coloured shapes or a printed word.'
UNKNOWN = 'I only know coloured shapes and printed words.'

CAPTION = ('Describe this image.', 'Describe this image.', 'Describe this image.', 'Describe this image.',
           'Describe the image.', 'Describe the picture.', 'Describe this picture.', 'What is in this picture?',
           'What is in this image?', 'What is this?', 'What do you see?', 'What can you see in this picture?',
           'What is shown in this image?', 'Describe this image in one sentence.', 'Caption this image.',
           "What's in this picture?", 'What does this picture show?')
READ = ('Read all the text in the image.', 'Read all the text in the image.', 'Read all the text in the image.',
        'Please output only the text content from the image without any additional descriptions or formatting.',
        'What does the text say?', 'Read the text.', 'What is written here?', 'What does it say?',
        'What text is in this image?', 'What does the sign say?', 'What is the word?', 'Read this.')
COUNT_ALL = ('How many shapes are there?', 'How many shapes are in this picture?', 'How many shapes do you see?',
             'Count the shapes.', 'How many objects are there?', 'How many shapes are in this image?')
COUNT_SOME = ('How many {}s are there?', 'How many {}s are in this picture?', 'How many {}s do you see?',
              'Count the {}s.', 'How many {}s are in this image?')
COLOR_OF = ('What color is the {}?', 'What colour is the {}?', 'What is the color of the {}?', 'Which color is the {}?')
DETECT = "Locate every instance that belongs to the following categories: '{}'. Report bbox coordinates in JSON format."
DETECT_DOUBLE = DETECT.replace("'", '"')
DESCRIBED = ('Locate every object that matches the description "{}" in the image. '
             'Report bbox coordinates in JSON format.')
LOCATE = ('Locate the {}.', 'Find the {}.', 'Where is the {}?', 'Detect the {}.', 'Locate the {} in the image.')
SYSTEM = ('You are a helpful assistant.', 'You are a helpful assistant.', 'Answer briefly.', 'You are helpful.',
          'Be brief and exact.')
TALK = (
    (('hi', 'Hi', 'Hi!', 'hello', 'Hello', 'Hello!', 'hey', 'Hey there', 'Good morning', 'Good evening!', 'Hi there!'),
     GREETING),
    (('Who are you?', 'What are you?', 'What can you do?', 'Help', 'help', 'What do you know?', 'What is your name?',
      'Tell me about yourself.', 'Are you a language model?'), ABOUT),
    (('Thanks', 'Thank you.', 'Thank you!', 'thanks!'), 'You are welcome.'),
    (('Bye', 'Goodbye!', 'bye', 'See you.'), 'Goodbye!'))
STRANGE = ('What is the capital of France?', 'Tell me a joke.', 'Write a poem.', 'What is 2+2?', 'What time is it?',
           'Who is the president?', 'Write a Python program.', 'Translate this to French.',
           'What is the weather today?',
           'Tell me a story.', 'Sing a song.', 'How old are you?', 'What is the meaning of life?', 'Is there a cat?',
           'How many people are there?', 'What is the man doing?', 'Is there a dog in the picture?',
           'Why is the sky blue?',
           'Explain quantum physics.', 'Who won the game?', 'What should I eat?', 'Where is this?', 'What year is it?',
           'Who painted this?', 'What breed is this dog?', 'How do I cook rice?', 'What is love?', 'Do you like music?')


def with_article(name):
    return ('an ' if name[0] in 'aeiou' else 'a ') + name


def join_words(parts):
    return parts[0] if len(parts) == 1 else ', '.join(parts[:-1]) + ' and ' + parts[-1]


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def number(count):
    return NUMBERS[count] + '.'


def caption(scene):
    """Returns the true description of a scene: shapes from left to right, then the words, then the background."""
    text = ''
    if scene.lines:
        noun = 'word' if len(scene.words) == 1 else 'words'
        text = f'the {noun} "{" ".join(scene.words)}" in {scene.text_color}'
    if scene.shapes:
        shapes = join_words([with_article(shape.name) for shape in scene.shapes])
        text = f'{shapes} with {text}' if text else shapes
    return sentence(f'{text} on {with_article(scene.background)} background')


def boxes(scene, categories):
    """Returns the true answer to detection: every shape of one of the categories, from left to right."""
    found = []
    for shape in scene.shapes:
        for category in categories:
            if category in (shape.name, shape.kind, 'shape'):
                found.append({'bbox_2d': scene.scaled_box(shape.box()), 'label': category})
                break
    if 'text' in categories:
        found += [{'bbox_2d': scene.scaled_box(line.box), 'label': 'text'} for line in scene.lines]
    return json.dumps(found)


def absent_name(rng, scene):
    """Returns a color and shape that the image does not have, often similar to one that it has."""
    names = {shape.name for shape in scene.shapes}
    while True:
        near = rng.choice(scene.shapes) if scene.shapes else None
        color = near.color if near and rng.random() < 0.4 else rng.choice(list(COLORS))
        kind = near.kind if near and rng.random() < 0.4 else rng.choice(SHAPES)
        if f'{color} {kind}' not in names:
            return f'{color} {kind}'


def ask_caption(rng, scene):
    return rng.choice(CAPTION), caption(scene)


def ask_read(rng, scene):
    return rng.choice(READ), scene.text or 'There is no text.'


def ask_count_all(rng, scene):
    return rng.choice(COUNT_ALL), number(len(scene.shapes))


def ask_count_some(rng, scene):
    """Asks for the number of a kind, a color, or both, usually one that is in the image."""
    shape = rng.choice(scene.shapes) if scene.shapes and rng.random() < 0.75 else None
    kind, color = (shape.kind, shape.color) if shape else (rng.choice(SHAPES), rng.choice(list(COLORS)))
    form = rng.random()
    if form < 0.6:
        name, count = kind, sum(s.kind == kind for s in scene.shapes)
    elif form < 0.8:
        name, count = f'{color} shape', sum(s.color == color for s in scene.shapes)
    else:
        name, count = f'{color} {kind}', sum(s.name == f'{color} {kind}' for s in scene.shapes)
    plural = name + 'e' if name.endswith('cross') else name
    return rng.choice(COUNT_SOME).format(plural), number(count)


def ask_color(rng, scene):
    lone = [s for s in scene.shapes if sum(o.kind == s.kind for o in scene.shapes) == 1]
    if not lone:
        return None
    shape = rng.choice(lone)
    return rng.choice(COLOR_OF).format(shape.kind), sentence(shape.color)


def ask_shape(rng, scene):
    lone = [s for s in scene.shapes if sum(o.color == s.color for o in scene.shapes) == 1]
    if not lone:
        return None
    shape = rng.choice(lone)
    forms = ('Which shape is {}?', 'What shape is {}?', 'What is the {} shape?', 'What is {}?')
    return rng.choice(forms).format(shape.color), sentence(with_article(shape.kind))


def ask_background(rng, scene):
    return rng.choice(COLOR_OF[:2]).format('background'), sentence(scene.background)


def ask_text_color(rng, scene):
    if not scene.lines:
        return None
    return rng.choice(COLOR_OF).format(rng.choice(('text', 'text', 'word', 'writing'))), sentence(scene.text_color)


def ask_word_count(rng, scene):
    forms = ('How many words are there?', 'How many words are in this picture?', 'Count the words.')
    return rng.choice(forms), number(len(scene.words))


def ask_exists(rng, scene):
    there = scene.shapes and rng.random() < 0.5
    name = rng.choice(scene.shapes).name if there else absent_name(rng, scene)
    form = rng.choice(('Is there {}?', 'Is there {} in this picture?', 'Do you see {}?', 'Can you see {}?'))
    return form.format(with_article(name)), 'Yes.' if there else 'No.'


def ask_place(rng, scene):
    """Asks which shape is nearest to an edge, or the largest, if that is unambiguous."""
    if len(scene.shapes) < 2:
        return None
    kind = rng.choice(('left', 'right', 'top', 'bottom', 'largest', 'smallest'))
    order = {'left': lambda s: s.x, 'right': lambda s: -s.x, 'top': lambda s: s.y, 'bottom': lambda s: -s.y,
             'largest': lambda s: -s.radius, 'smallest': lambda s: s.radius}[kind]
    first, second = sorted(scene.shapes, key=order)[:2]
    if kind in ('largest', 'smallest'):
        if max(first.radius, second.radius) < 1.25 * min(first.radius, second.radius):
            return None
        return f'What is the {kind} shape?', sentence(with_article(first.name))
    if abs(order(first) - order(second)) < 0.06 * (scene.width if kind in ('left', 'right') else scene.height):
        return None
    where = f'at the {kind}' if kind in ('top', 'bottom') else f'on the {kind}'
    return rng.choice((f'What is {where}?', f'Which shape is {where}?')), sentence(with_article(first.name))


def ask_side(rng, scene):
    """Asks whether one shape is left of, right of, above or below another."""
    names = [s.name for s in scene.shapes]
    lone = [s for s in scene.shapes if names.count(s.name) == 1]
    if len(lone) < 2:
        return None
    a, b = rng.sample(lone, 2)
    relation = rng.choice(('left of', 'right of', 'above', 'below'))
    gap = {'left of': b.x - a.x, 'right of': a.x - b.x, 'above': b.y - a.y, 'below': a.y - b.y}[relation]
    if abs(gap) < 0.06 * scene.height:
        return None
    return f'Is the {a.name} {relation} the {b.name}?', 'Yes.' if gap > 0 else 'No.'


def ask_detect(rng, scene):
    """Asks for the boxes of a named shape, a kind, several categories, all shapes, the text, or something absent."""
    chance = rng.random()
    names = [shape.name for shape in scene.shapes]
    if scene.lines and (chance < 0.08 or not names):
        categories = ['text']
    elif not names or chance < 0.16:
        categories = [absent_name(rng, scene)]
    elif chance < 0.6:
        categories = [rng.choice(names)]
    elif chance < 0.8:
        categories = [rng.choice(scene.shapes).kind]
    elif chance < 0.9 or len(set(names)) < 2:
        categories = ['shape']
    else:
        categories = rng.sample(sorted(set(names)), 2)
    listed = ', '.join(categories)
    forms = [DETECT] * 6 + [DETECT_DOUBLE]
    if len(categories) == 1:
        forms += [DESCRIBED]
        if names.count(listed) == 1 or listed == 'text':
            forms += list(LOCATE)
    return rng.choice(forms).format(listed), boxes(scene, categories)


def ask_strange(rng, scene):
    return rng.choice(STRANGE), UNKNOWN


SHAPE_TASKS = ((ask_caption, 20), (ask_detect, 30), (ask_count_all, 6), (ask_count_some, 12), (ask_color, 10),
               (ask_shape, 5), (ask_background, 4), (ask_exists, 4), (ask_place, 5), (ask_side, 4), (ask_read, 1),
               (ask_word_count, 0.5), (ask_strange, 0.5))
TEXT_TASKS = ((ask_read, 12), (ask_caption, 12), (ask_text_color, 5), (ask_background, 4), (ask_word_count, 4),
              (ask_detect, 5), (ask_count_all, 1), (ask_count_some, 1), (ask_exists, 0.5), (ask_strange, 0.5))


def talk_without_image(rng):
    """Returns a question without an image and its answer."""
    chance = rng.random()
    if chance < 0.6:
        forms, answer = rng.choice(TALK)
        return rng.choice(forms), answer
    if chance < 0.8:
        return rng.choice(STRANGE), UNKNOWN
    about_image = CAPTION + READ + COUNT_ALL + tuple(form.format(rng.choice(SHAPES)) for form in COLOR_OF + LOCATE)
    return rng.choice(about_image), NO_IMAGE


def ask_stranger(rng, scene):
    """Returns a question about an image that the model does not know, and an answer that says so or has no boxes."""
    if rng.random() < 0.2:
        name = rng.choice((f'{rng.choice(list(COLORS))} {rng.choice(SHAPES)}', rng.choice(SHAPES), 'text', 'shape'))
        return rng.choice([DETECT] * 3 + [DETECT_DOUBLE, DESCRIBED]).format(name), '[]'
    forms = CAPTION * 2 + READ + COUNT_ALL + STRANGE + tuple(form.format(rng.choice(SHAPES)) for form in COLOR_OF)
    return rng.choice(forms), UNKNOWN


def ask_many(rng, scene):
    """Yields (question, answer) about the scene without end, first about reading if it has text."""
    while scene.strange:
        yield ask_stranger(rng, scene)
    if scene.lines:
        yield ask_read(rng, scene)
    tasks, weights = zip(*(SHAPE_TASKS if scene.shapes else TEXT_TASKS))
    if scene.shapes and scene.lines:
        tasks, weights = tasks + (ask_read, ask_text_color), weights + (8, 5)
    while True:
        pair = rng.choices(tasks, weights)[0](rng, scene)
        if pair:
            yield pair
