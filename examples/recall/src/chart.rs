//! The chart of all agents as SVG.

use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use training_kit::error::Error;

use crate::agent::{MEMORYLESS, NEVER_RESTARTED};

const SIZE: (u32, u32) = (800, 450);
/// Colours that differ also without colour vision (Okabe and Ito 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x7a, 0x7a, 0x7a),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
];

/// A name, and the share of right answers after each number of steps.
pub struct Curve {
    pub label: String,
    /// The place of its colour.
    pub colour: usize,
    pub points: Vec<(usize, f64)>,
}

/// Draws the curves and the two bounds.
pub fn draw(curves: &[Curve], path: &Path) -> Result<(), Error> {
    draw_curves(curves, path).map_err(|e| Error::write(path, e))
}

fn draw_curves(curves: &[Curve], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let millions = |steps: usize| steps as f64 / 1e6;
    let ends = curves.iter().flat_map(|curve| curve.points.last());
    let last = ends.map(|&(steps, _)| millions(steps)).fold(1e-6, f64::max);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .caption("Right answers", ("sans-serif", 20))
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0.0..last, 0.0..1.02)?;
    chart
        .configure_mesh()
        .x_desc("million steps")
        .y_desc("share")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (name, share) in [
        ("bound without restarts: 0.317", NEVER_RESTARTED),
        ("bound without memory: 1/4", MEMORYLESS),
    ] {
        let dashes = DashedLineSeries::new([(0.0, share), (last, share)], 5, 4, BLACK.into());
        chart
            .draw_series(dashes)?
            .label(name)
            .legend(|(x, y)| DashedPathElement::new(vec![(x, y), (x + 18, y)], 5, 4, BLACK));
    }
    for curve in curves {
        let stroke = COLOURS[curve.colour % COLOURS.len()].stroke_width(2);
        let points = curve
            .points
            .iter()
            .map(|&(steps, share)| (millions(steps), share));
        chart
            .draw_series(LineSeries::new(points, stroke))?
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], stroke));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
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
    fn the_chart_has_all_curves_and_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recall.svg");
        let curve = |label: &str, colour| Curve {
            label: label.to_string(),
            colour,
            points: vec![(4096, 0.25), (8192, 0.5)],
        };
        draw(&[curve("one", 0), curve("two", 4)], &path).unwrap();
        let drawn = std::fs::read_to_string(&path).unwrap();
        for label in ["one", "two", "0.317", "1/4", "million steps"] {
            assert!(drawn.contains(label), "{label}");
        }
        assert_eq!(
            drawn.matches("#0072B2").count(),
            2,
            "a curve and its legend"
        );
    }
}
