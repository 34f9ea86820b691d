import torch

from horizon_imagination.data import Segment, shift_right
from horizon_imagination.types import NO_ACTION


def segment():
    return Segment(
        frames=torch.zeros(2, 3, 1, 2, 2, dtype=torch.uint8),
        action=torch.tensor([[4, 5, 6], [7, 8, 0]]),
        reward=torch.tensor([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]]),
        terminated=torch.tensor([[False, False, True], [False, False, False]]),
        mask=torch.tensor([[True, True, True], [True, True, False]]),
    )


def test_the_shift_moves_time_and_nothing_else():
    x = torch.arange(12.0).reshape(2, 3, 2)
    shifted = shift_right(x, 0.5)
    assert torch.equal(shifted[:, 1:], x[:, :-1])
    assert (shifted[:, 0] == 0.5).all()


def test_the_previous_action_of_the_first_frame_is_none():
    assert segment().prev_actions.tolist() == [[NO_ACTION, 4, 5], [NO_ACTION, 7, 8]]
