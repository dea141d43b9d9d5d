//! Charts as SVG.

use std::f64::consts::LN_2;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use plotters::prelude::*;

use char_model::data::Streams;
use char_model::error::Error;
use char_model::model::CharGru;
use char_model::ngram::Reference;

const SIZE: (u32, u32) = (800, 450);
const TRAINING: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const VALIDATION: RGBColor = RGBColor(0x1f, 0x6f, 0xb5);
const COUNTING: RGBColor = RGBColor(0xc0, 0x5a, 0x2b);

/// Draws training and validation loss over the steps in bits per character, with the loss of the 2-gram
/// model. `history` contains step, training loss and validation loss in nats.
pub fn losses(
    history: &[(usize, f64, f64)],
    reference: &Reference,
    path: &Path,
) -> Result<(), Error> {
    draw_losses(history, reference, path).map_err(|e| Error::write(path, e))
}

fn draw_losses(
    history: &[(usize, f64, f64)],
    reference: &Reference,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let bits = |nats: f64| nats / LN_2;
    let counting = reference.bigram.unwrap_or(reference.unigram);
    let all = history
        .iter()
        .flat_map(|&(_, t, v)| [t, v])
        .chain([counting]);
    let (low, high) = all
        .map(bits)
        .fold((f64::MAX, f64::MIN), |(low, high), loss| {
            (low.min(loss), high.max(loss))
        });
    let last = history.last().map_or(1, |&(step, ..)| step);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .caption("Loss", ("sans-serif", 20))
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0..last, (low * 0.95)..(high * 1.05))?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("bits per character")
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut line = |name: &str, color: RGBColor, points: Vec<(usize, f64)>| {
        let stroke = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points, stroke))
            .map(|series| {
                series.label(name).legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2))
                });
            })
    };
    let of = |pick: fn(&(usize, f64, f64)) -> f64| {
        let points = history.iter();
        points.map(|h| (h.0, bits(pick(h)))).collect::<Vec<_>>()
    };
    line("training", TRAINING, of(|h| h.1))?;
    line("validation", VALIDATION, of(|h| h.2))?;
    let name = match reference.bigram {
        Some(_) => "counting pairs",
        None => "counting",
    };
    line(
        name,
        COUNTING,
        vec![(0, bits(counting)), (last, bits(counting))],
    )?;
    chart
        .configure_series_labels()
        .border_style(BLACK.mix(0.2))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
}

/// The mean gates of one layer over a text.
pub struct GateMeans {
    /// Mean reset gate of each unit.
    pub reset: Vec<f64>,
    /// Mean update gate of each unit.
    pub update: Vec<f64>,
}

/// The mean gates of every layer over the first windows of a text.
pub fn gate_means(
    model: &CharGru,
    streams: &Streams,
    seq: usize,
    windows: usize,
    device: &Device,
) -> Result<Vec<GateMeans>, Error> {
    let layers = model.gru.layers.len();
    let mut sums: Vec<Option<[Tensor<1>; 2]>> = vec![None; layers];
    let mut state = None;
    let mut read = streams.read_all(seq)?;
    let mut rows = 0;
    for _ in 0..windows {
        let Some(window) = read.read()? else { break };
        let x = model.embedding.forward(window.inputs(device));
        let gates = model.gru.gates(x, state);
        let mut finals = Vec::with_capacity(layers);
        for (sum, gates) in sums.iter_mut().zip(gates) {
            let total = |gate: Tensor<3>| gate.sum_dim(0).sum_dim(1).flatten::<1>(0, 2);
            let new = [total(gates.reset), total(gates.update)];
            *sum = Some(match sum.take() {
                Some([r, z]) => [r + new[0].clone(), z + new[1].clone()],
                None => new,
            });
            let [_, t, _] = gates.states.dims();
            finals.push(gates.states.narrow(1, t - 1, 1).squeeze_dim::<2>(1));
        }
        state = Some(Tensor::stack(finals, 0));
        rows += window.len();
    }
    let numbers = |sum: Tensor<1>| -> Result<Vec<f64>, Error> {
        let mean = sum / rows.max(1) as f64;
        let values = mean.try_into_vec_as::<f64>();
        values.map_err(Error::device)
    };
    let sums = sums.into_iter().flatten();
    sums.map(|[reset, update]| {
        Ok(GateMeans {
            reset: numbers(reset)?,
            update: numbers(update)?,
        })
    })
    .collect()
}

/// Draws one point per unit: its mean reset gate, and its mean update gate. Units on the right keep
/// their state, units on the left follow the text.
pub fn gates(layers: &[GateMeans], path: &Path) -> Result<(), Error> {
    draw_gates(layers, path).map_err(|e| Error::write(path, e))
}

fn draw_gates(layers: &[GateMeans], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let width = 400 * layers.len().min(4) as u32;
    let rows = layers.len().div_ceil(4);
    let root = SVGBackend::new(path, (width, 420 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for ((k, layer), area) in layers
        .iter()
        .enumerate()
        .zip(root.split_evenly((rows, layers.len().min(4))))
    {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .caption(format!("Layer {}", k + 1), ("sans-serif", 18))
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
        chart
            .configure_mesh()
            .x_desc("mean update gate z: keeps")
            .y_desc("mean reset gate r: listens")
            .light_line_style(TRANSPARENT)
            .draw()?;
        let units = layer.update.iter().zip(&layer.reset);
        chart.draw_series(
            units.map(|(&z, &r)| Circle::new((z, r), 3, VALIDATION.mix(0.5).filled())),
        )?;
    }
    root.present()?;
    Ok(())
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use char_model::data::Corpus;
    use char_model::model::CharGruConfig;
    use char_model::text::Text;

    #[test]
    fn charts_are_drawn() {
        let folder = std::env::temp_dir().join(format!("char-gru-chart-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let reference = Reference {
            unigram: 2.9,
            bigram: Some(2.3),
        };
        let path = folder.join("loss.svg");
        losses(&[(10, 3.0, 2.8), (20, 2.0, 2.1)], &reference, &path).unwrap();
        let drawn = std::fs::read_to_string(&path).unwrap();
        for label in [
            "training",
            "validation",
            "counting pairs",
            "bits per character",
        ] {
            assert!(drawn.contains(label), "{label}");
        }

        let device = Device::flex();
        let (text, vocabulary) = Text::new("abcabcabcabcabcabcabcabc").unwrap();
        let corpus = Corpus::new(text, vocabulary, 0.2, 4).unwrap();
        let model = CharGruConfig::new(3, 4, 5, 2, 0.0).init(&device);
        let streams = corpus.train_streams(2, 4);
        let means = gate_means(&model, &streams, 4, 2, &device).unwrap();
        assert_eq!(means.len(), 2);
        assert!(
            means
                .iter()
                .all(|m| m.reset.len() == 5 && m.update.len() == 5)
        );
        let open = |g: &f64| (0.0..=1.0).contains(g);
        assert!(
            means
                .iter()
                .all(|m| m.reset.iter().chain(&m.update).all(open))
        );
        let path = folder.join("gates.svg");
        gates(&means, &path).unwrap();
        let drawn = std::fs::read_to_string(&path).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 10);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
