"""How one network learns: its optimiser, and in which epochs it takes how many steps."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """The optimiser (AdamW) of one network and its share of every epoch."""

    batch_size: int
    steps_per_epoch: int
    first_epoch: int = 0
    """Epoch (from 0) at which this learner starts."""
    learning_rate: float = 2e-4
    final_learning_rate: float | None = None
    """Reached by cosine decay after `decay_steps`; none keeps the rate."""
    decay_steps: int = 0
    last_epoch: int | None = None
    """Last epoch in which this learner trains; none for no end."""
    rest_from: int | None = None
    """Epoch from which this learner works in one of `rest_every` epochs only; none for never."""
    rest_every: int = 10
    early_until: int = 0
    """Epoch before which an epoch has `early_steps` steps instead of `steps_per_epoch`."""
    early_steps: int = 0
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8
    max_grad_norm: float = 1.0
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
