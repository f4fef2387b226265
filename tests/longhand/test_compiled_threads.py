"""Compiled objects in several threads, and in the processes of a data loader."""

import threading

import pytest
import torch

from longhand.capture.bytecode.hook import frame_hook
from tests.longhand.compiled_objects import Net, agree, compiled, double_sine

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def test_threads_that_call_for_the_first_time_together():
    module = Net().eval()
    run = compiled(module)
    inputs = [torch.randn(2 + n % 3, 6) for n in range(8)]
    results, errors = [None] * 8, []
    start = threading.Barrier(8)

    def work(n):
        try:
            start.wait()
            with torch.no_grad():
                for _ in range(3):
                    results[n] = run(inputs[n])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with torch.no_grad():
        for result, given in zip(results, inputs, strict=True):
            torch.testing.assert_close(result, module(given))


def test_another_thread_is_not_captured_meanwhile():
    frames = []

    def outside():
        frames.append(frame_hook().pause())

    def inside(x):
        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        return x * 2

    agree(compiled(inside), lambda x: x * 2)
    assert frames == [None]


class Items(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index)))


@pytest.mark.parametrize("was_called", [False, True])
def test_workers_of_a_data_loader(was_called):
    run = compiled(double_sine)
    if was_called:
        agree(run, double_sine, torch.ones(4))
    loader = torch.utils.data.DataLoader(Items(run), batch_size=3, num_workers=2, timeout=120)
    found = torch.cat(list(loader))
    expected = torch.stack([double_sine(torch.full((4,), float(n))) for n in range(6)])
    torch.testing.assert_close(found, expected)
