#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_folder.py SECONDS CORES (such as 6-15): runs the fuzz targets in the current folder, which tools/fuzz_folder.sh
has made.

Each core runs one process at a time, for about 90 seconds. The next process is of the target with the fewest minutes
in hours.json and in this run so far, and has its own random seed. Afterwards out.tar.xz has results.json (for
tests/fuzz/add_minutes.py), new small inputs, and inputs that made a target fail. The seconds in results.json are
processor time: two processes in parallel count twice, and waiting does not count.
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time

SMALL = 1024        # largest new input, in bytes, that may become a seed
TURN = 90           # minimum seconds of a process
AFTERWARDS = 12     # seconds for the processes to end and for packing


def core_list(text):
    cores = []
    for part in text.split(','):
        first, _, last = part.partition('-')
        cores += range(int(first), int(last or first) + 1)
    return cores


def read_targets():
    """(name, seed files) of each target, and the minutes that it has had."""
    with open('targets', encoding='utf-8') as file:
        rows = [line.split() for line in file]
    had = {}
    if os.path.exists('hours.json'):
        with open('hours.json', encoding='utf-8') as file:
            had = json.load(file)
    targets = [(os.path.basename(row[0]), row[1:]) for row in rows]
    return targets, {name: had.get(name, 0.0) for name, _ in targets}


def turns(targets, minutes, n_cores, seconds):
    """(target, seed files, number of the process) for each core and round, and the seconds of a round."""
    rounds = max(1, seconds // TURN)
    minutes, numbers, chosen = dict(minutes), {}, []
    for _ in range(rounds * n_cores):
        name, seeds = min(targets, key=lambda target: minutes[target[0]])
        chosen.append((name, seeds, numbers.setdefault(name, 0)))
        numbers[name] += 1
        minutes[name] += seconds / rounds / 60
    return [chosen[i::n_cores] for i in range(n_cores)], seconds // rounds


class Run:
    """The results of all processes."""

    def __init__(self):
        self.lock = threading.Lock()
        self.results = {}

    def one(self, core, turn, seconds):
        name, seeds, number = turn
        found = f'found/{name}' if number == 0 else f'found/{name}.{number}'
        os.makedirs(found, exist_ok=True)
        command = ['taskset', '-c', str(core), 'setarch', '-R', f'./{name}', f'-max_total_time={seconds}',
                   f'-seed={int(time.time()) % 100000 * 100 + number + 1}', '-timeout=10', '-rss_limit_mb=4096',
                   f'-artifact_prefix={found}-', '-print_final_stats=1', found, *seeds]
        with open(found + '.log', 'wb') as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env={**os.environ, 'LD_LIBRARY_PATH': 'lib'})
            timer = threading.Timer(seconds + AFTERWARDS, process.kill)
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            timer.cancel()
        with open(found + '.log', encoding='utf-8', errors='replace') as log:
            text = log.read()
        units = [int(line.split()[-1]) for line in text.splitlines() if 'number_of_executed_units' in line]
        with self.lock:
            row = self.results.setdefault(name, {'seconds': 0.0, 'runs': 0, 'processes': 0, 'failed': 0})
            row['seconds'] = round(row['seconds'] + usage.ru_utime + usage.ru_stime, 1)
            row['runs'] += sum(units)
            row['processes'] += 1
            row['failed'] += process.returncode != 0
        if process.returncode:
            print(f'FAILED {name} ({process.returncode}):\n{text[-3000:]}', flush=True)


def pack(results):
    with open('results.json', 'w', encoding='utf-8') as file:
        json.dump(results, file, indent=1, sort_keys=True)
    with tarfile.open('out.tar.xz', 'w:xz', preset=1) as tar:
        tar.add('results.json')
        for folder, _, names in os.walk('found'):
            for name in names:
                path = os.path.join(folder, name)
                if folder == 'found' or os.path.getsize(path) <= SMALL:  # logs, and inputs that made a target fail
                    tar.add(path)


def main():
    seconds, cores = int(sys.argv[1]), core_list(sys.argv[2])
    shutil.rmtree('found', ignore_errors=True)
    plan, each = turns(*read_targets(), len(cores), seconds - AFTERWARDS)
    run = Run()

    def work(core, list_of_turns):
        for turn in list_of_turns:
            run.one(core, turn, each)
    threads = [threading.Thread(target=work, args=row) for row in zip(cores, plan)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pack(run.results)
    failed = sum(row['failed'] for row in run.results.values())
    print(f'{len(run.results)} targets, {sum(r["seconds"] for r in run.results.values()) / 60:.1f} minutes, '
          f'{sum(r["runs"] for r in run.results.values())} runs, {failed} failed')
    sys.exit(failed > 0)


if __name__ == '__main__':
    main()
