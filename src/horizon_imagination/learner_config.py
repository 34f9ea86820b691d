"""How one network learns: its optimiser, and in which epochs it takes how many steps."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """The optimiser (AdamW) of one network and its share of every epoch."""

    batch_size: int
    """Samples of a step: frames, segments, or contexts to imagine from."""
    steps_per_epoch: int
    """Steps that the learner takes in every epoch in which it works."""
    first_epoch: int = 0
    """Epoch (from 0) at which this learner starts."""
    learning_rate: float = 2e-4
    """The learning rate, or the one it begins with where it decays."""
    final_learning_rate: float | None = None
    """Reached by cosine decay after `decay_steps`; none keeps the rate."""
    decay_steps: int = 0
    """Steps of the cosine decay to `final_learning_rate`."""
    last_epoch: int | None = None
    """Last epoch in which this learner trains; none for no end."""
    rest_from: int | None = None
    """Epoch from which this learner works in one of `rest_every` epochs only; none for never."""
    rest_every: int = 10
    """One epoch in so many has steps, from `rest_from` on."""
    early_until: int = 0
    """Epoch before which an epoch has `early_steps` steps instead of `steps_per_epoch`."""
    early_steps: int = 0
    """Steps of an epoch before `early_until`."""
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decays of AdamW's two averages."""
    eps: float = 1e-8
    """Epsilon of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients of a larger norm are scaled down to it."""
    micro_batches: int = 1
    """Split each batch into this many parts and accumulate gradients, to save GPU memory."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.steps_per_epoch < 0 or self.micro_batches < 1:
            raise ValueError("batch_size, micro_batches: at least 1; steps_per_epoch: at least 0")
        if self.batch_size % self.micro_batches:
            parts, size = self.micro_batches, self.batch_size
            raise ValueError(f"micro_batches ({parts}) must divide batch_size ({size})")
        if self.rest_every < 1:
            raise ValueError(f"rest_every must be at least 1, got {self.rest_every}")
        if self.early_until > 0 and self.early_steps < 1:
            raise ValueError(f"early_until {self.early_until} needs early_steps of at least 1")

    def works_in(self, epoch: int) -> bool:
        """Whether the learner takes steps in an epoch (from 0)."""
        last = epoch if self.last_epoch is None else self.last_epoch
        rests = self.rest_from is not None and epoch >= self.rest_from
        due = not rests or (epoch - (self.rest_from or 0)) % self.rest_every == 0
        return due and self.steps_per_epoch > 0 and self.first_epoch <= epoch <= last

    def steps_in(self, epoch: int) -> int:
        """Steps that the learner takes in an epoch (from 0)."""
        if not self.works_in(epoch):
            return 0
        return self.early_steps if epoch < self.early_until else self.steps_per_epoch
