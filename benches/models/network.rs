//! The GRUs of one model in sequence, and the ways to run them.

use std::{path::Path, time::Instant};

use burn::tensor::{Device, Tensor};
use gru_convert::{StateDict, onnx};
use gru_op::{GruBlock, Precision, StackStream};

/// Name, file in DIR, frames per second of sound. NSNet2's package uses frames of 512 samples at 48 kHz.
pub const MODELS: [(&str, &str, f64); 5] = [
    (
        "nsnet2-20ms-baseline",
        "nsnet2/nsnet2-20ms-baseline.onnx",
        100.0,
    ),
    (
        "nsnet2-20ms-48k-baseline",
        "nsnet2/nsnet2-20ms-48k-baseline.onnx",
        48_000.0 / 512.0,
    ),
    ("enc", "deepfilternet3/enc.onnx", 100.0),
    ("erb_dec", "deepfilternet3/erb_dec.onnx", 100.0),
    ("df_dec", "deepfilternet3/df_dec.onnx", 100.0),
];

/// The streams, by the precision of their weights.
pub const STREAMS: [(&str, Precision); 3] = [
    ("Stream", Precision::Full),
    ("Bf16", Precision::Bf16),
    ("Int8", Precision::Int8),
];

/// The allowed difference from ONNX Runtime. Both results are rounded.
const SAME: f32 = 5e-5;

/// The GRUs of one model, and the recorded input of the first.
pub struct Network {
    pub name: &'static str,
    /// Seconds of sound in the file.
    seconds: f64,
    blocks: Vec<GruBlock>,
    /// For each of [`STREAMS`], the streams of all GRUs.
    streams: [Vec<StackStream>; 3],
    /// `[T,1,I]`, and `[1,I]` for each frame.
    x: Tensor<3>,
    frames: Vec<Tensor<2>>,
    flat: Vec<f32>,
    expected: Vec<f32>,
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data();
    data.try_into_vec().expect("models are float32")
}

impl Network {
    /// Reads a model and its record.
    pub fn load(
        root: &Path,
        &(name, file, frame_rate): &(&'static str, &str, f64),
        device: &Device,
    ) -> Result<Self, String> {
        let model = onnx::Model::open(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        let mut blocks = Vec::new();
        for node in model.grus() {
            let block = model.import(node.name(), device);
            blocks.push(block.map_err(|e| format!("{file}: {e}"))?);
        }
        let path = root.join("recorded").join(format!("{name}.safetensors"));
        let recorded = StateDict::from_safetensors(&path)
            .map_err(|e| format!("{}: {e}; reference.py writes this file", path.display()))?;
        let key = match model.grus() {
            [node] => node.name(),
            _ => "stack",
        };
        let tensor = |what: &str| {
            let key = format!("{key}:file:{what}");
            let data = recorded.get(&key).cloned();
            data.ok_or(format!("{}: expected {key}, got none", path.display()))
        };
        let x = Tensor::<3>::from_data(tensor("X")?, device);
        let [t, _, i] = x.dims();
        let frame = |t: usize| x.clone().narrow(0, t, 1).reshape([1, i]);
        let mut network = Self {
            name,
            seconds: t as f64 / frame_rate,
            streams: STREAMS.map(|(_, precision)| {
                let stream = |block: &GruBlock| block.prepare(precision).stream(1);
                blocks.iter().map(stream).collect()
            }),
            blocks,
            frames: (0..t).map(frame).collect(),
            flat: floats(x.clone()),
            x,
            expected: floats(Tensor::<4>::from_data(tensor("Y")?, device)),
        };
        for (way, got) in [
            ("GruBlock::forward", floats(network.file())),
            ("GruBlock::step", network.steps()),
            ("PreparedGru::stream", network.streamed(0)),
        ] {
            // NaN fails this comparison.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= SAME;
            let all = got.iter().zip(&network.expected).all(near);
            if got.len() != network.expected.len() || !all {
                return Err(format!(
                    "{name}: {way}: expected the results of ONNX Runtime"
                ));
            }
        }
        Ok(network)
    }

    /// Milliseconds per second of sound.
    fn timed(&self, start: Instant) -> f64 {
        start.elapsed().as_secs_f64() * 1e3 / self.seconds
    }

    /// One call of `GruBlock::forward` per GRU.
    pub fn time_file(&self) -> f64 {
        let start = Instant::now();
        drop(self.file());
        self.timed(start)
    }

    /// One call of `GruBlock::step` per GRU and frame.
    pub fn time_steps(&self) -> f64 {
        let start = Instant::now();
        self.each_step(drop);
        self.timed(start)
    }

    /// One call of `StackStream::step` per GRU and frame, with weights prepared in advance: one of [`STREAMS`].
    pub fn time_streams(&mut self, which: usize) -> f64 {
        let start = Instant::now();
        self.each_streamed(which, |_| ());
        self.timed(start)
    }

    fn file(&self) -> Tensor<3> {
        let run = |x, block: &GruBlock| block.forward(x, None).0;
        self.blocks.iter().fold(self.x.clone(), run)
    }

    fn each_step(&self, mut take: impl FnMut(Tensor<2>)) {
        let mut states: Vec<Option<Tensor<3>>> = vec![None; self.blocks.len()];
        for frame in &self.frames {
            let mut x = frame.clone();
            for (block, state) in self.blocks.iter().zip(&mut states) {
                let (y, new) = block.step(x, state.take());
                (x, *state) = (y, Some(new));
            }
            take(x);
        }
    }

    fn each_streamed(&mut self, which: usize, mut take: impl FnMut(&[f32])) {
        let streams = &mut self.streams[which];
        for stream in streams.iter_mut() {
            stream.state_mut().fill(0.0);
        }
        let i = self.flat.len() / self.frames.len();
        for frame in self.flat.chunks_exact(i) {
            let mut x = frame;
            for stream in streams.iter_mut() {
                x = stream.step(x);
            }
            take(x);
        }
    }

    fn steps(&self) -> Vec<f32> {
        let mut all = Vec::new();
        self.each_step(|y| all.extend(floats(y)));
        all
    }

    fn streamed(&mut self, which: usize) -> Vec<f32> {
        let mut all = Vec::new();
        self.each_streamed(which, |y| all.extend_from_slice(y));
        all
    }
}
