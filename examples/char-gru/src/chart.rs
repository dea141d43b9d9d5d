//! The chart of the losses as SVG.

use std::f64::consts::LN_2;
use std::path::Path;

use plotters::prelude::*;

use char_model::error::Error;
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
    let counting = reference.bigram;
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
    line(
        "counting pairs",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let reference = Reference {
            unigram: 2.9,
            bigram: 2.3,
        };
        let path = folder.path().join("loss.svg");
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
    }
}
