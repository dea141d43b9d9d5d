//! The chart of the losses as SVG.

use std::error::Error;
use std::f64::consts::LN_2;

use char_gru::train::Progress;
use plotters::prelude::*;

/// Draws the training loss of each step and the validation losses in bits per character.
pub fn losses(progress: &Progress) -> Result<String, Box<dyn Error>> {
    let training = progress.steps.iter().map(|s| (s.step, s.loss.into()));
    let training: Vec<(usize, f64)> = training.collect();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (800, 450)).into_drawing_area();
        root.fill(&WHITE)?;
        let highest = training.iter().map(|&(_, loss)| loss).fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(55)
            .build_cartesian_2d(0..training.len().max(1), 0.0..highest / LN_2)?;
        chart
            .configure_mesh()
            .x_desc("step")
            .y_desc("bits per character: training grey, validation blue")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (losses, color) in [
            (&training, RGBColor(0x9a, 0xa5, 0xb1)),
            (&progress.validations, RGBColor(0x1f, 0x6f, 0xb5)),
        ] {
            let points = losses.iter().map(|&(step, loss)| (step, loss / LN_2));
            chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        }
        root.present()?;
    }
    Ok(svg)
}
