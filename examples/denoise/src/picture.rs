//! Draws both spectrograms as one SVG.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{Error, write_error};
use crate::spectrogram::{CELLS, HERTZ, Spectrogram};

const SIZE: (u32, u32) = (860, 560);
/// Width of the colour scale at the right.
const SCALE: u32 = 94;
/// Range of the colours, in dB of a sine at full scale.
const RANGE: (f64, f64) = (-100.0, -20.0);
/// Number of colours. Each covers 2.5 dB, which keeps the file small.
const COLOURS: u8 = 32;

/// Draws the original spectrogram above the denoised spectrogram.
///
/// # Errors
/// If the picture cannot be written.
pub fn draw(noisy: &Spectrogram, denoised: &Spectrogram, path: &Path) -> Result<(), Error> {
    let svg = svg(noisy, denoised).map_err(|reason| write_error(path, reason))?;
    std::fs::write(path, svg).map_err(|reason| write_error(path, reason))
}

type Failure = Box<dyn std::error::Error>;

fn svg(noisy: &Spectrogram, denoised: &Spectrogram) -> Result<String, Failure> {
    let mut svg = String::new();
    let mut images = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 - SCALE);
        let halves = left.split_evenly((2, 1));
        images += &panel(&halves[0], "noisy", noisy)?;
        images += &panel(&halves[1], "denoised", denoised)?;
        images += &scale(&right)?;
        root.present()?;
    }
    // plotters draws images with the picture's own pixels. These images are coarser and smaller.
    let end = svg
        .rfind("</svg>")
        .ok_or("expected </svg> in the picture")?;
    svg.insert_str(end, &images);
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the axes and returns the image inside them.
fn panel(area: &Area<'_>, name: &str, of: &Spectrogram) -> Result<String, Failure> {
    let top = CELLS as f64 * HERTZ / 1000.0;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(name, ("sans-serif", 18))
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..of.seconds(), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("seconds")
        .y_desc("kHz")
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .draw()?;
    let columns = of.decibels();
    let rows = (0..CELLS).rev();
    let pixels = rows.flat_map(|row| columns.iter().map(move |column| colour_of(column[row])));
    let png = png(columns.len(), CELLS, pixels.collect())?;
    Ok(image(&png, chart.plotting_area().get_pixel_range()))
}

/// Draws the colour scale with its dB values.
fn scale(area: &Area<'_>) -> Result<String, Failure> {
    let area = area.margin(150, 150, 0, 20);
    let mut chart = ChartBuilder::on(&area)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..1.0, RANGE.0..RANGE.1)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_x_axis()
        .y_labels(5)
        .label_style(("sans-serif", 13))
        .set_all_tick_mark_size(5)
        .y_label_formatter(&|db| format!("{db:.0} dB"))
        .draw()?;
    let pixels = (0..COLOURS).rev().collect();
    let png = png(1, COLOURS.into(), pixels)?;
    Ok(image(&png, chart.plotting_area().get_pixel_range()))
}

fn short(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn colour_of(decibels: f64) -> u8 {
    let part = (decibels - RANGE.0) / (RANGE.1 - RANGE.0);
    (part * f64::from(COLOURS)).clamp(0.0, f64::from(COLOURS - 1)) as u8
}

fn png(width: usize, height: usize, pixels: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let colours = (0..COLOURS).flat_map(|k| {
        let part = f64::from(k) / f64::from(COLOURS - 1);
        let RGBColor(red, green, blue) = ViridisRGB::get_color(part);
        [red, green, blue]
    });
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width.try_into()?, height.try_into()?);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(colours.collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    // The values are palette indices. A filter by differences would not improve the compression.
    encoder.set_filter(png::Filter::NoFilter);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(bytes)
}

fn image(png: &[u8], (x, y): (std::ops::Range<i32>, std::ops::Range<i32>)) -> String {
    format!(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         image-rendering=\"optimizeSpeed\" href=\"data:image/png;base64,{}\"/>\n",
        x.start,
        y.start,
        x.len(),
        y.len(),
        STANDARD.encode(png)
    )
}
