# SPDX-License-Identifier: Apache-2.0
"""tools/scaling_sim.py against queueing theory and measurements."""
import importlib.util
import pathlib
import random
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("scaling_sim", ROOT / "tools" / "scaling_sim.py")
sim = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sim)


def machine(image, decode, tokens=1):
    return types.SimpleNamespace(image=image, decode=decode, tokens=tokens)


class Theory(unittest.TestCase):
    def test_one_place_and_constant_service_is_m_d_1(self):
        """Pollaczek and Khinchine: the wait is load * service / (2 * (1 - load))."""
        load, service = 0.7, 0.1
        only_images = machine(service, lambda n: 1e9)
        result = sim.simulate(only_images, 1, load / service, questions=1, slots=1, cached=0, seconds=6000, seed=3)
        self.assertAlmostEqual(result["mean"] / service, 1 + load / (2 * (1 - load)), delta=0.1)
        self.assertEqual(result["hits"], 0)

    def test_many_places_without_images_is_m_d_1_shared(self):
        """Processor sharing: the mean time is service / (1 - load), whatever the distribution of the service."""
        load = 0.6
        result = sim.simulate(machine(0.0, lambda n: 10.0), 1, load * 10, questions=1, slots=200, seconds=4000, seed=4)
        self.assertAlmostEqual(result["mean"], 0.1 / (1 - load), delta=0.02)

    def test_questions_come_at_the_rate_that_was_asked_for(self):
        found = sim.arrivals(random.Random(1), 50, 4, 2, 2000)
        self.assertAlmostEqual(len(found) / 2000, 50, delta=1.5)
        self.assertEqual(found, sorted(found))


class Measured(unittest.TestCase):
    def test_clients_in_a_row_get_what_was_measured(self):
        """The time of an image was fitted to 32 clients; 8 clients were measured independently."""
        measured = sim.Measured()
        for clients in (8, 32):
            said = sim.simulate_clients(measured, clients, 800)
            self.assertAlmostEqual(said / measured.answers_a_second(clients), 1, delta=0.05)

    def test_decode_is_what_was_measured_and_between(self):
        measured = sim.Measured()
        for n, speed in zip(measured.sequences, measured.speeds):
            self.assertEqual(measured.decode(n), speed)
        self.assertTrue(measured.decode(8) < measured.decode(11) < measured.decode(16))
        self.assertEqual(measured.decode(500), measured.speeds[-1])


class Routing(unittest.TestCase):
    def run_it(self, **options):
        return sim.simulate(sim.Measured(), seconds=12, warm=8, pause=1, **options)

    def test_the_same_seed_gives_the_same_numbers(self):
        self.assertEqual(self.run_it(replicas=4, rate=30, seed=5), self.run_it(replicas=4, rate=30, seed=5))
        self.assertNotEqual(self.run_it(replicas=4, rate=30, seed=5), self.run_it(replicas=4, rate=30, seed=6))

    def test_routing_by_prefix_finds_three_images_of_four(self):
        spread, kept = (self.run_it(replicas=16, rate=40, routing=r) for r in ("two", "prefix"))
        self.assertLess(spread["hits"], 0.15)
        self.assertAlmostEqual(kept["hits"], 0.75, delta=0.06)
        self.assertLess(kept["p99"], spread["p99"])

    def test_more_than_it_can_do_is_seen(self):
        self.assertLess(self.run_it(replicas=4, rate=120, questions=1)["kept_up"], 0.9)
        self.assertGreater(self.run_it(replicas=4, rate=20, questions=1)["kept_up"], 0.95)


if __name__ == "__main__":
    unittest.main()
