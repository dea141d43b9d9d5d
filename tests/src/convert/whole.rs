//! Whole models: a checkpoint of PyTorch or of Burn's own GRUs loads into a model of blocks, and every array is used.

use super::*;
use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear,
        LinearConfig, PaddingConfig1d,
        conv::{Conv1d, Conv1dConfig},
        gru::{BiGru, BiGruConfig, Gru, GruConfig},
    },
    store::{BurnToPyTorchAdapter, ModuleSnapshot, bridge},
};

/// A model three modules deep. With Burn's GRUs it is the old model, with blocks the new one.
#[derive(Module, Debug)]
struct Model<G: Module, B: Module> {
    encoder: Encoder<G, B>,
    head: Linear,
}

#[derive(Module, Debug)]
struct Encoder<G: Module, B: Module> {
    convs: Vec<Conv1d>,
    batch: BatchNorm,
    rnn: Rnn<G, B>,
}

#[derive(Module, Debug)]
struct Rnn<G: Module, B: Module> {
    gru: G,
    norm: LayerNorm,
    both: B,
}

type New = Model<GruBlock, GruBlock>;

/// The output of a GRU over a batch-first sequence.
trait Forward: Module {
    fn y(&self, x: Tensor<3>) -> Tensor<3>;
}

macro_rules! forward {
    ($($gru:ident [$($first:tt)*])+) => {$(
        impl Forward for $gru {
            fn y(&self, x: Tensor<3>) -> Tensor<3> {
                self.forward(x, None)$($first)*
            }
        }
    )+};
}
forward!(Gru [] BiGru [.0] GruBlock [.0]);

impl<G: Forward, B: Forward> Model<G, B> {
    fn new(gru: G, both: B) -> Self {
        let (conv, device) = (Conv1dConfig::new(I, I, 3), device());
        let conv = conv.with_padding(PaddingConfig1d::Same);
        let norm = LayerNormConfig::new(H).init(&device);
        let encoder = Encoder {
            convs: (0..3).map(|_| conv.init(&device)).collect(),
            batch: BatchNormConfig::new(I).init(&device),
            rnn: Rnn { gru, norm, both },
        };
        let head = LinearConfig::new(2 * H, 2).init(&device);
        Self { encoder, head }
    }

    fn run(&self, x: &Tensor<3>) -> Vec<f64> {
        let (encoder, rnn) = (&self.encoder, &self.encoder.rnn);
        let mut x = x.clone().swap_dims(1, 2);
        for conv in &encoder.convs {
            x = conv.forward(x).tanh();
        }
        let x = rnn.gru.y(encoder.batch.forward(x).swap_dims(1, 2));
        values(self.head.forward(rnn.both.y(rnn.norm.forward(x))))
    }
}

fn new(reset: Reset, layers: usize) -> New {
    let both = GruBlockConfig::new(H, H).with_num_layers(layers);
    let both = both.with_bidirectional(true).with_reset(reset);
    let gru = config().with_reset(reset);
    Model::new(gru.init(&device()), both.init(&device()))
}

pub fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 7] = [
        ("whole/burn", || of_burn(Reset::AfterMatmul)),
        ("whole/burn-reset-before", || of_burn(Reset::BeforeMatmul)),
        ("whole/burn-stack", stack_of_burn),
        ("whole/pytorch", of_pytorch),
        ("whole/pytorch-file", pytorch_file),
        ("whole/cells", cells),
        ("whole/unmatched", unmatched),
    ];
    // Burn's records have the byte order of the machine, and are an error where it is big.
    let is_record = |name| matches!(name, "whole/burn" | "whole/burn-reset-before");
    let is_ignored = move |name| cfg!(target_endian = "big") && is_record(name);
    checks
        .into_iter()
        .map(move |of| check(of).with_ignored_flag(is_ignored(of.0)))
}

/// A record of a model with Burn's GRUs.
fn of_burn(reset: Reset) -> Result<(), String> {
    let after = reset == Reset::AfterMatmul;
    let gru = GruConfig::new(I, H, true).with_reset_after(after);
    let both = BiGruConfig::new(H, H, true).with_reset_after(after);
    let old = Model::new(gru.init(&device()), both.init(&device()));
    let path = tempfile::tempdir().map_err(text)?;
    let path = path.path().join("old.bpk");
    old.clone().save_file(&path).map_err(text)?;
    let dict = StateDict::from_burnpack(&path).map_err(text)?;

    let config = burns::config(&dict, "encoder.rnn.gru.").map_err(text)?;
    let config = config.with_reset(reset);
    let gru = burns::import(&dict, "encoder.rnn.gru.", &config, &device()).map_err(text)?;
    let read = burns::load(dict, new(reset, 1)).map_err(text)?;
    let same_gru = &read.encoder.rnn.gru.layers[0];
    same(&gru.layers[0].weights(), &same_gru.weights())?;
    let x = random([2, 7, I]);
    let tolerance = Tolerance::F32.forward;
    close("model", &read.run(&x), &old.run(&x), tolerance)
}

/// Two `Gru` modules become the layers of one block.
fn stack_of_burn() -> Result<(), String> {
    let grus = [I, H].map(|i| GruConfig::new(i, H, true).init(&device()));
    let mut dict = StateDict::new();
    for tensor in grus.to_vec().collect(None, None, false) {
        dict.insert(&tensor.name, bridge::to_data(&tensor).map_err(text)?);
    }
    let dict = burns::blocks(dict, &device()).map_err(text)?;
    let dict = dict.renamed(|key| {
        key.replace("0.layers", "layers")
            .replace("1.layers.0", "layers.1")
    });
    let block = config().with_num_layers(2).init(&device());
    let block = burns::load(dict.map_err(text)?, block).map_err(text)?;
    let x = random([2, 7, I]);
    let expected = grus.iter().fold(x.clone(), |x, gru| gru.forward(x, None));
    let tolerance = Tolerance::F32.forward;
    close("stack", &values(block.y(x)), &values(expected), tolerance)
}

/// A state dict of PyTorch with the parameters of a model: `nn.Sequential` also counts its activations.
fn state_dict(model: &New) -> Result<StateDict, String> {
    let mut dict = StateDict::new();
    let tensors = model.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true);
    for tensor in tensors.iter().filter(|one| !one.name.contains(".layers.")) {
        let name = tensor.name.replace("convs.2", "convs.4");
        let name = name.replace("convs.1", "convs.2");
        dict.insert(name, bridge::to_data(tensor).map_err(text)?);
    }
    let count = TensorData::from([7i64]);
    dict.insert("encoder.batch.num_batches_tracked", count);
    let rnn = &model.encoder.rnn;
    dict.extend(pytorch::export(&rnn.gru, "encoder.rnn.gru.").map_err(text)?);
    dict.extend(pytorch::export(&rnn.both, "encoder.rnn.both.").map_err(text)?);
    Ok(dict)
}

/// Arrays in float64 become the default type.
fn of_pytorch() -> Result<(), String> {
    let model = new(Reset::AfterMatmul, 2);
    let mut dict = state_dict(&model)?;
    for key in dict.clone().keys() {
        dict.insert(key, dict.get(key).expect(key).clone().convert::<f64>());
    }
    let x = random([2, 7, I]);
    let read = pytorch::load(dict, new(Reset::AfterMatmul, 2)).map_err(text)?;
    let (got, expected) = (read.run(&x), model.run(&x));
    if got != expected {
        return Err(format!("expected {expected:?}, got {got:?}"));
    }
    Ok(())
}

/// The model that PyTorch saved, as `pytorch_model` imports it array by array.
fn pytorch_file() -> Result<(), String> {
    #[derive(Module, Debug)]
    struct Tagger {
        embedding: Embedding,
        encoder: GruBlock,
        head: Linear,
    }
    let path = crate::data().join("models/tagger/tagger.pt");
    let dict = StateDict::from_pytorch(path).map_err(text)?;
    let config = pytorch::config(&dict, "encoder.").map_err(text)?;
    let shape = |key| dict.shape::<2>(key).map_err(text);
    let ([tokens, width], [tags, features]) = (shape("embedding.weight")?, shape("head.weight")?);
    let tagger = Tagger {
        embedding: EmbeddingConfig::new(tokens, width).init(&device()),
        encoder: config.init(&device()),
        head: LinearConfig::new(features, tags).init(&device()),
    };
    let encoder = pytorch::import(&dict, "encoder.", &config, &device()).map_err(text)?;
    let tagger = pytorch::load(dict.clone(), tagger).map_err(text)?;
    for (got, expected) in tagger.encoder.layers.iter().zip(&encoder.layers) {
        same(&got.weights(), &expected.weights())?;
    }
    let rows = values(tagger.head.weight.val().transpose());
    if rows == values_by_key(&dict)["head.weight"] {
        Ok(())
    } else {
        Err("expected the transposed weight of the file".into())
    }
}

/// A cell of PyTorch next to other parameters of the same module, and modules that only look like GRUs.
fn cells() -> Result<(), String> {
    let mut dict = pytorch::export(&block(config()), "a.").map_err(text)?;
    dict = dict.renamed(|key| key.replace("_l0", "")).map_err(text)?;
    for other in ["a.weight", "my_weight_ih", "b.weight_hh.weight"] {
        dict.insert(other, zeros([2]));
    }
    let dict = pytorch::blocks(dict, &device()).map_err(text)?;
    let keys: Vec<_> = dict.keys().collect();
    let expected = ["b_hh", "b_ih", "w_hh", "w_ih"].map(|name| format!("a.layers.0.{name}"));
    if keys[..4] == expected && keys[4..] == ["a.weight", "b.weight_hh.weight", "my_weight_ih"] {
        Ok(())
    } else {
        Err(format!("{keys:?}"))
    }
}

/// An array too many, a parameter without an array, and an array of another shape are one error.
fn unmatched() -> Result<(), String> {
    let model = || new(Reset::AfterMatmul, 1);
    let mut dict = state_dict(&model())?;
    let renamed = dict.renamed(|key| key.replace("head.bias", "tail.bias"));
    dict = renamed.map_err(text)?;
    dict.insert("head.weight", zeros([3, 4]));
    let header = r#"{"text":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#;
    let file = [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &[0],
    ]
    .concat();
    dict.extend(StateDict::from_safetensors_bytes("file", file).map_err(text)?);
    let expected = "head.bias: expected an array of this name, got none; tail.bias: expected a parameter of the model of \
                    this name, got none; Shape mismatch for 'head.weight': expected Shape { dims: [10, 2] }, found Shape { \
                    dims: [4, 3] }; text: expected numbers of a type of Burn, got F8_E4M3; StateDict::retain drops arrays that are not used";
    runs::fails(pytorch::load(dict, model()), expected)
}
