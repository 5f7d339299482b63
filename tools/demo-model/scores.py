# SPDX-License-Identifier: Apache-2.0
"""Counts the right answers of a model."""
import json


def overlap(a, b):
    """Returns the intersection over union of two boxes."""
    wide = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - wide * high
    return wide * high / union if union > 0 else 0.0


def box_score(said, true):
    """Returns whether all boxes are right (number, labels, every IoU over 0.5), how many are found, and how many exist."""
    true = json.loads(true)
    try:
        said = json.loads(said)
        pairs = [(item['label'], [float(value) for value in item['bbox_2d']]) for item in said]
    except (ValueError, KeyError, TypeError):
        return False, 0, len(true)
    left, found = list(pairs), 0
    for item in true:
        best = max(left, key=lambda p: overlap(p[1], item['bbox_2d']) if p[0] == item['label'] else -1.0, default=None)
        if best and best[0] == item['label'] and overlap(best[1], item['bbox_2d']) > 0.5:
            left.remove(best)
            found += 1
    return found == len(true) and not left, found, len(true)


def distance(a, b):
    """Returns the edit distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def score(task, said, true):
    """Returns the number of right answers of a task, and further counts."""
    result = {'cases': len(true)}
    if task.startswith('boxes'):
        each = [box_score(s, t) for s, t in zip(said, true)]
        right, found, boxes_there = (sum(column) for column in zip(*each))
        result.update(right=right, boxes_found=found, boxes=boxes_there)
    else:
        result['right'] = sum(s == t for s, t in zip(said, true))
    if task.startswith('reading'):
        result['wrong_characters'] = sum(distance(s, t) for s, t in zip(said, true))
        result['characters'] = sum(map(len, true))
    return result
