//! The learning curves as SVG.

use std::error::Error;

use plotters::prelude::*;

use crate::agent::Agent;

/// The share of right answers in each window of an agent's training.
pub type Curve = (Agent, Vec<f64>);

/// Draws one curve for each agent.
pub fn curves(curves: &[Curve]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (800, 450)).into_drawing_area();
        root.fill(&WHITE)?;
        let updates = curves.iter().map(|(_, right)| right.len()).max();
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(55)
            .build_cartesian_2d(0..updates.unwrap_or(0).max(1), 0.0..1.0)?;
        chart
            .configure_mesh()
            .x_desc("update")
            .y_desc("share of right answers")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (index, (agent, right)) in curves.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            chart
                .draw_series(LineSeries::new(right.iter().copied().enumerate(), color))?
                .label(format!("{agent:?}").to_lowercase())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE)
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}
