"""How good generated videos are: pixels against pixels, and features for the Fréchet distance."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from einops import reduce, repeat
from jaxtyping import Float, UInt8
from torch import Tensor

from horizon_imagination.errors import UsageError
from horizon_imagination.metrics import image_quality
from horizon_imagination.metrics.i3d import I3D, MIN_FRAMES, video_features
from horizon_imagination.models.perceptual import Lpips
from horizon_imagination.models.weights import load_weights
from horizon_imagination.models.weights.cache import is_installed
from horizon_imagination.studies.quality_scenes import Videos

Features = Float[Tensor, "video feature"]
BEST_PSNR = 100.0
"""Decibels of a frame that is equal: an infinite one would swallow the mean."""


@dataclass(frozen=True)
class Extractor:
    """What turns videos into features, and the name that results carry."""

    name: str
    features: Callable[[Videos], Features]


def i3d_extractor(path: Path | None, device: torch.device, batch: int = 16) -> Extractor:
    """I3D from the user's cache, or from a converted file."""
    if path is not None and not path.is_file():
        raise UsageError(f"--features is '{path}': expected i3d, none or a file of I3D weights")
    name = "i3d" if path is None else f"i3d {sha256(path.read_bytes()).hexdigest()[:8]}"
    network = I3D(load_weights("i3d", path)).to(device)

    def features(videos: Videos) -> Features:
        return video_features(watchable(videos), network, device=device, batch_size=batch)

    return Extractor(name, features)


def watchable(videos: Videos) -> UInt8[Tensor, "video _ 3 height width"]:
    """Three channels and at least as many frames as I3D needs: the last frame is held."""
    if videos.shape[2] == 1:
        videos = repeat(videos, "n t 1 h w -> n t c h w", c=3)
    missing = MIN_FRAMES - videos.shape[1]
    if missing <= 0:
        return videos
    return torch.cat([videos, repeat(videos[:, -1], "n c h w -> n t c h w", t=missing)], dim=1)


def find_lpips(device: torch.device) -> Lpips | None:
    """LPIPS, where its weights are in the cache with their heads."""
    if not is_installed("vgg16"):
        return None
    weights = load_weights("vgg16")
    return Lpips(weights).to(device) if "head0" in weights else None


@dataclass(frozen=True)
class Closeness:
    """Frame by frame comparison of two sets of videos; all but `mse` are means."""

    mse: Float[Tensor, "video time"]
    psnr: float
    ssim: float | None
    lpips: float | None

    def line(self) -> dict[str, object]:
        """As plain data; per video and per frame index for the MSE."""
        return {
            "mse": self.mse.mean().item(),
            "psnr": self.psnr,
            "ssim": self.ssim,
            "lpips": self.lpips,
            "mse_by_frame": _rounded(reduce(self.mse, "n t -> t", "mean")),
            "mse_by_video": _rounded(reduce(self.mse, "n t -> n", "mean")),
        }


@torch.no_grad()
def closeness(
    videos: Videos,
    reference: Videos,
    *,
    device: torch.device,
    lpips: Lpips | None = None,
    batch: int = 16,
) -> Closeness:
    """Compare videos with those they should be. SSIM needs frames of 11 x 11 pixels."""
    found: dict[str, list[Tensor]] = {"mse": [], "psnr": [], "ssim": [], "lpips": []}
    for mine, theirs in zip(videos.split(batch), reference.split(batch), strict=True):
        a, b = (image_quality.unit_pixels(x.to(device)) for x in (mine, theirs))
        found["mse"].append(image_quality.mse(a, b))
        found["psnr"].append(image_quality.psnr(a, b).clamp(max=BEST_PSNR))
        if min(a.shape[-2:]) >= 11:
            found["ssim"].append(image_quality.ssim(a, b))
        if lpips is not None:
            a, b = (x.expand(-1, -1, 3, -1, -1) for x in (a, b))
            found["lpips"].append(image_quality.lpips(a, b, lpips))
    means = {
        name: torch.cat(parts).double().mean().item() if parts else None
        for name, parts in found.items()
    }
    mse = torch.cat(found["mse"]).double().cpu()
    return Closeness(mse, means["psnr"] or 0.0, means["ssim"], means["lpips"])


def _rounded(values: Float[Tensor, " n"]) -> list[float]:
    """Seven digits are plenty, and keep a line short."""
    return [float(f"{value:.7g}") for value in values.tolist()]
