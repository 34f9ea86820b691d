"""Named configurations. `paper` is the published one; every other says what it changes."""

from dataclasses import replace

from horizon_imagination.config import (
    AtariConfig,
    Config,
    ControllerConfig,
    DenoiserConfig,
    EnvConfig,
    ImaginationConfig,
    LearnerConfig,
    OfflineConfig,
    RecurrentConfig,
    ReplayConfig,
    RuntimeConfig,
    TokenizerConfig,
    TrainingConfig,
    WorldModelConfig,
)


def replaced(config: Config, **sections: dict) -> Config:
    """A config with fields of its sections replaced."""
    return replace(
        config,
        **{name: replace(getattr(config, name), **f) for name, f in sections.items()},
    )


PAPER = Config(env=EnvConfig(id="ALE/Boxing-v5"))

FAST = replaced(
    PAPER,
    env={"atari": AtariConfig(end_on_life_loss=True)},
    tokenizer={
        "channels": 32,
        "latent_noise": 0.2,
        "learner": replace(
            PAPER.tokenizer.learner,
            steps_per_epoch=200, first_epoch=5, rest_from=25, rest_every=16, learning_rate=3e-4,
        ),
    },
    denoiser={
        "layers": 8,
        "heads": 4,
        "prediction": "clean",
        "loss_weight": "noise_squared",
        "normalize": True,
        "ema": 0.99,
    },
    reward={"cnn_channels": 128, "normalize": True, "readout": "categories"},
    world_model={
        "segment_length": 17,
        "horizon_times": 0.5,
        "noise_ahead": 3,
        "change_every": 2,
        "reward_weight_decay": 0.3,
        "reward_noise": 0.1,
        "reward_shift": 1,
        "learner": replace(
            PAPER.world_model.learner,
            batch_size=32, steps_per_epoch=150, first_epoch=10, learning_rate=3e-4,
        ),
    },
    controller={
        "smooth_tau": True,
        "center_features": True,
        "scale_by_deviation": True,
        "network": replace(PAPER.controller.network, cnn_channels=64),
        "learner": replace(
            PAPER.controller.learner, batch_size=120, steps_per_epoch=75, first_epoch=20
        ),
    },
    imagination={"horizon": 16, "budget": 8},
    training={"overlap": True, "examine_every": 5, "snapshot_every": 50},
    runtime={"compile": True},
)  # fmt: skip

SMALL_TOKENIZER = TokenizerConfig(
    patch_size=4,
    channels=24,
    multipliers=(2,),
    encoder_blocks=1,
    decoder_blocks=1,
    attention_at=(),
    latent_channels=4,
    norm_groups=8,
    perceptual="none",
    latent_noise=0.6,
    learner=LearnerConfig(
        batch_size=32, steps_per_epoch=100, last_epoch=4, learning_rate=2e-3,
        final_learning_rate=2e-4, decay_steps=500, weight_decay=0.0,
        betas=(0.9, 0.95),
    ),
)  # fmt: skip

CATCH = Config(
    env=EnvConfig(id="catch"),
    tokenizer=SMALL_TOKENIZER,
    denoiser=DenoiserConfig(
        layers=3,
        heads=4,
        head_dim=32,
        patch_size=4,
        prediction="clean",
        loss_weight="noise_squared",
        action_tokens=True,
        normalize=True,
        ema=0.99,
    ),
    reward=RecurrentConfig(cnn_channels=16, cnn_out_channels=16, hidden=128, normalize=True),
    world_model=WorldModelConfig(
        segment_length=8,
        horizon_times=0.8,
        change_every=2,
        learner=LearnerConfig(
            batch_size=32, steps_per_epoch=40, first_epoch=5, learning_rate=2e-3,
            final_learning_rate=2e-4, decay_steps=2800, eps=1e-6,
        ),
    ),
    controller=ControllerConfig(
        discount=0.97,
        entropy_weight=0.02,
        context=4,
        shared_encoder=False,
        network=RecurrentConfig(cnn_channels=16, cnn_out_channels=16, hidden=128, normalize=True),
        learner=LearnerConfig(
            batch_size=32, steps_per_epoch=40, first_epoch=35, learning_rate=2e-3,
            final_learning_rate=5e-4, decay_steps=1200,
        ),
    ),
    imagination=ImaginationConfig(horizon=7, budget=4, decay_horizon=2.0),
    replay=ReplayConfig(min_segment=5, min_future=5),
    training=TrainingConfig(
        epochs=80,
        collect_steps=224,
        initial_steps=7000,
        snapshot_every=10,
        evaluate_every=2,
        evaluation_episodes=256,
        target_return=0.98,
        strips_every=20,
    ),
    offline=OfflineConfig(
        tokenizer_epochs=5, tokenizer_steps=100,
        world_model_epochs=70, world_model_steps=40,
        controller_epochs=40, controller_steps=40,
    ),
    runtime=RuntimeConfig(precision="float32"),
)  # fmt: skip

SMALL_CATCH = replaced(
    CATCH,
    env={"id": "small-catch", "size": 32},
    tokenizer={"learner": replace(SMALL_TOKENIZER.learner, steps_per_epoch=80, decay_steps=400)},
    denoiser={"layers": 2, "heads": 3, "patch_size": 2},
    world_model={
        "segment_length": 4,
        "learner": replace(CATCH.world_model.learner, decay_steps=1600),
    },
    controller={"context": 2, "learner": replace(CATCH.controller.learner, first_epoch=30)},
    imagination={"horizon": 3, "budget": 2},
    replay={"min_segment": 3, "min_future": 2},
    training={"epochs": 80, "collect_steps": 96, "initial_steps": 3000},
    offline={"tokenizer_steps": 80, "world_model_epochs": 40},
)

SMALL_REACH = replaced(
    SMALL_CATCH,
    env={"id": "small-reach"},
    controller={"learner": replace(SMALL_CATCH.controller.learner, first_epoch=20)},
    training={"epochs": 60, "target_return": -0.25},
)

FOG = replaced(
    CATCH,
    env={"id": "fog"},
    imagination={"context": 3},
    controller={"context": 3},
    training={"epochs": 120},
)

SMALL_FOG = replaced(
    FOG,
    env={"id": "small-fog", "size": 48},
    denoiser={"patch_size": 3},
    world_model={"segment_length": 6},
    controller={"learner": replace(CATCH.controller.learner, first_epoch=25)},
    imagination={"horizon": 6, "budget": 3},
    replay={"min_future": 3},
    training={"epochs": 60, "collect_steps": 160, "initial_steps": 5000},
    offline={"world_model_epochs": 55, "controller_epochs": 35},
)

DEBUG = Config(
    env=EnvConfig(id="catch", size=32),
    tokenizer=replace(
        SMALL_TOKENIZER,
        channels=8,
        norm_groups=4,
        learner=LearnerConfig(batch_size=8, steps_per_epoch=4, learning_rate=1e-3),
    ),
    denoiser=replace(CATCH.denoiser, layers=2, heads=2, head_dim=16, patch_size=2),
    reward=RecurrentConfig(cnn_channels=8, cnn_out_channels=4, hidden=16, normalize=True),
    world_model=WorldModelConfig(
        segment_length=7,
        horizon_times=0.5,
        change_every=2,
        learner=LearnerConfig(batch_size=4, steps_per_epoch=4, first_epoch=1, eps=1e-6),
    ),
    controller=ControllerConfig(
        context=3,
        shared_encoder=False,
        network=RecurrentConfig(cnn_channels=8, cnn_out_channels=4, hidden=16, normalize=True),
        learner=LearnerConfig(batch_size=4, steps_per_epoch=4, first_epoch=2),
    ),
    imagination=ImaginationConfig(horizon=6, budget=4, decay_horizon=2.0),
    training=TrainingConfig(
        epochs=6,
        collect_steps=20,
        initial_steps=60,
        snapshot_every=1,
        evaluate_every=2,
        evaluation_episodes=4,
        strips_every=0,
    ),
    offline=OfflineConfig(
        tokenizer_epochs=1, tokenizer_steps=4,
        world_model_epochs=1, world_model_steps=4,
        controller_epochs=2, controller_steps=4,
    ),
    runtime=RuntimeConfig(threads=1),
)  # fmt: skip

PRESETS: dict[str, tuple[str, Config]] = {
    "paper": (
        "the published configuration: 93 M parameters (the paper counts 97 M), 100 K steps, "
        "decay horizon 4, budget 16",
        PAPER,
    ),
    "fast": (
        "100 K steps in 22 minutes of an H200: 26 M parameters, decay horizon 4, budget 8 for 16 "
        "frames; docs/fast.md has every change",
        FAST,
    ),
    "demo": ("catch, learned in minutes on two CPU cores", CATCH),
    "small-catch": ("the same on a board of 4 x 4 cells", SMALL_CATCH),
    "small-reach": ("a point moved onto a target by a continuous action", SMALL_REACH),
    "fog": ("catch in fog, which needs memory, on two CPU cores", FOG),
    "small-fog": ("the same on a board of 6 x 6 cells", SMALL_FOG),
    "debug": ("every part of the agent at toy size: seconds on a CPU, learns nothing", DEBUG),
}
