# SPDX-License-Identifier: Apache-2.0
"""add_minutes.py SECONDS < NAMES: adds SECONDS to the recorded minutes of the fuzz targets that standard input
names."""
import json
import os
import sys

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'hours.json')
minutes = {}
if os.path.exists(path):
    with open(path) as file:
        minutes = json.load(file)
for name in sys.stdin.read().split():
    minutes[name] = round(minutes.get(name, 0) + float(sys.argv[1]) / 60, 1)
with open(path, 'w') as file:
    json.dump(minutes, file, indent=1, sort_keys=True)
    file.write('\n')
