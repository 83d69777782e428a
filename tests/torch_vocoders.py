"""HiFi-GAN and Vocos in PyTorch with random weights, as their papers and programs have them, to compare ours with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import leaky_relu
from torch.nn.utils.parametrizations import weight_norm


def convolution(inputs: int, outputs: int, kernel: int, dilation: int = 1) -> nn.Module:
    padding = (kernel - 1) * dilation // 2
    return weight_norm(nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding=padding))


class ResidualBlock(nn.Module):
    """Kind 1: pairs of convolutions, dilated and plain. Kind 2: dilated ones."""

    def __init__(self, kind: str, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        dilated = nn.ModuleList(convolution(channels, channels, kernel, dilation) for dilation in dilations)
        self.paired = kind == "1"
        if self.paired:
            self.convs1 = dilated
            self.convs2 = nn.ModuleList(convolution(channels, channels, kernel) for _ in dilations)
        else:
            self.convs = dilated

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.paired:
            for one in self.convs:
                x = x + one(leaky_relu(x, 0.1))
            return x
        for first, second in zip(self.convs1, self.convs2, strict=True):
            x = x + second(leaky_relu(first(leaky_relu(x, 0.1)), 0.1))
        return x


class Generator(nn.Module):
    """HiFi-GAN's, by the keys of its configuration files."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        channels = config["upsample_initial_channel"]
        self.conv_pre = convolution(config["num_mels"], channels, 7)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        self.each = len(config["resblock_kernel_sizes"])
        for rate, kernel in zip(config["upsample_rates"], config["upsample_kernel_sizes"], strict=True):
            transposed = nn.ConvTranspose1d(channels, channels // 2, kernel, rate, padding=(kernel - rate) // 2)
            self.ups.append(weight_norm(transposed))
            channels //= 2
            blocks = zip(config["resblock_kernel_sizes"], config["resblock_dilation_sizes"], strict=True)
            self.resblocks.extend(ResidualBlock(config["resblock"], channels, size, some) for size, some in blocks)
        self.conv_post = convolution(channels, 1, 7)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """[B, n_mels, F] → [B, 1, F * hop]."""
        x = self.conv_pre(mel)
        for step, up in enumerate(self.ups):
            x = up(leaky_relu(x, 0.1))
            blocks = self.resblocks[step * self.each : (step + 1) * self.each]
            x = sum(block(x) for block in blocks) / self.each
        return torch.tanh(self.conv_post(leaky_relu(x)))


class ConvNext(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, inner)
        self.pwconv2 = nn.Linear(inner, width)
        self.gamma = nn.Parameter(torch.rand(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.dwconv(x).transpose(1, 2))
        h = self.pwconv2(nn.functional.gelu(self.pwconv1(h)))
        return x + (self.gamma * h).transpose(1, 2)


class Backbone(nn.Module):
    """[B, n_mels, F] → [B, F, width]."""

    def __init__(self, n_mels: int, width: int, inner: int, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Conv1d(n_mels, width, 7, padding=3)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.convnext = nn.ModuleList(ConvNext(width, inner) for _ in range(blocks))
        self.final_layer_norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(mel).transpose(1, 2)).transpose(1, 2)
        for block in self.convnext:
            x = block(x)
        return self.final_layer_norm(x.transpose(1, 2))


class InverseTransform(nn.Module):
    window: torch.Tensor

    def __init__(self, n_fft: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(n_fft))


class Head(nn.Module):
    def __init__(self, width: int, n_fft: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, n_fft + 2)
        self.istft = InverseTransform(n_fft)


class Vocos(nn.Module):
    """With its own names of parts; `padding` is `center` or `same`."""

    def __init__(self, n_mels: int, width: int, inner: int, blocks: int, n_fft: int, hop: int, padding: str) -> None:
        super().__init__()
        self.hop, self.n_fft, self.padding = hop, n_fft, padding
        self.backbone = Backbone(n_mels, width, inner, blocks)
        self.head = Head(width, n_fft)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """[B, n_mels, F] → [B, F * hop], or (F - 1) * hop with the padding `center`."""
        magnitude, phase = self.head.out(self.backbone(mel)).transpose(1, 2).chunk(2, dim=1)  # [B, bins, F] each
        spectrum, window = torch.polar(magnitude.exp().clip(max=100), phase), self.head.istft.window
        if self.padding == "center":
            return torch.istft(spectrum, self.n_fft, self.hop, self.n_fft, window, center=True)
        length = (spectrum.shape[2] - 1) * self.hop + self.n_fft
        frames = torch.fft.irfft(spectrum, self.n_fft, dim=1) * window[None, :, None]
        squares = window.square()[None, :, None].expand(1, -1, spectrum.shape[2])
        fold = nn.Fold((1, length), (1, self.n_fft), stride=(1, self.hop))
        sound, weight = fold(frames)[:, 0, 0], fold(squares)[:, 0, 0]
        edge = (self.n_fft - self.hop) // 2
        return sound[:, edge:-edge] / weight[:, edge:-edge]


def make_louder(network: nn.Module, factor: float) -> None:
    """Scales the weights: PyTorch's initial ones make a sound near zero, which hides mistakes."""
    with torch.no_grad():
        for name, value in network.named_parameters():
            if name.endswith(("original0", "weight_g")):
                value.mul_(factor)
