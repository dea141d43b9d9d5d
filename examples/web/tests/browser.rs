//! Builds the page, and uses it in a real browser as a visitor does.
//!
//! Requires Chromium (or Chrome, Edge) and the target of WebAssembly. If one is missing, the trials are ignored, or fail
//! if `GRU_REQUIRE_BROWSER` is set. A screenshot is written next to the page.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, error::Error, fs, iter};

use burn::tensor::{Device, read_sync};
use char_gru::data::{DOCUMENTATION, Text};
use char_gru::train::{Settings, Trainer};
use clap::Parser;
use headless_chrome::browser::default_executable;
use headless_chrome::protocol::cdp::Page::CaptureScreenshotFormatOption::Png;
use headless_chrome::{Browser, LaunchOptions, Tab};
use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

/// A time limit that suffices even while other builds run.
const PATIENCE: Duration = Duration::from_secs(120);
const REQUIRE: &str = "GRU_REQUIRE_BROWSER";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() {
    let trial = |name: &str, gpu| {
        Trial::ignorable_test(name, move || match missing() {
            None => {
                page(gpu).map_err(|error| error.to_string())?;
                Ok(Completion::Completed)
            }
            Some(what) if env::var_os(REQUIRE).is_some() => {
                Err(format!("{what}, and {REQUIRE} is set").into())
            }
            Some(what) => Ok(Completion::ignored_with(what)),
        })
    };
    // The build for WebGPU takes half an hour, so this trial runs only on request.
    let trials = vec![
        trial("page", false),
        trial("webgpu", true).with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// What this machine lacks.
fn missing() -> Option<&'static str> {
    let mut rustc = Command::new("rustc");
    let libraries = rustc
        .args(["--print", "target-libdir", "--target", web::TARGET])
        .output();
    let libraries = libraries
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    if default_executable().is_err() {
        Some("no Chromium")
    } else if libraries.is_none_or(|folder| !Path::new(folder.trim()).is_dir()) {
        Some("no target for WebAssembly")
    } else {
        None
    }
}

fn page(gpu: bool) -> Outcome {
    let folder = web::folder().join(if gpu { "page-webgpu" } else { "page" });
    web::build(&folder, gpu)?;
    let (send, port) = mpsc::channel();
    let served = folder.clone();
    thread::spawn(move || web::serve(&served, 0, |port| send.send(port).expect("the test waits")));
    let options = LaunchOptions {
        // Chromium has no sandbox for root, and tests in containers run as root.
        sandbox: false,
        window_size: Some((1280, 1500)),
        idle_browser_timeout: PATIENCE,
        args: [
            "--no-first-run",
            "--enable-unsafe-webgpu",
            "--use-webgpu-adapter=swiftshader",
            "--enable-features=Vulkan",
        ]
        .map(OsStr::new)
        .to_vec(),
        ..LaunchOptions::default()
    };
    let browser = Browser::new(options)?;
    let tab = browser.new_tab()?;
    let query = if gpu { "?webgpu" } else { "" };
    tab.navigate_to(&format!("http://127.0.0.1:{}/{query}", port.recv()?))?;
    until(&tab, "status().startsWith('Ready')")?;

    // The same seed in the browser and in this program. A GPU draws other values for dropout.
    let dropout = if gpu { 0.0 } else { 0.25 };
    let settings = format!(
        "--embed 16 --hidden 24 --layers 2 --dropout {dropout} --epochs 3 --batch 8 --seq 32 --lr 0.01"
    );
    let text: String = DOCUMENTATION.chars().take(9000).collect();
    js(
        &tab,
        &format!("$('settings').value = {settings:?}, $('text').value = {text:?}"),
    )?;
    js(&tab, "$('train').click()")?;
    until(&tab, "status().startsWith('Done')")?;
    let there: Vec<f64> = serde_json::from_value(js(&tab, "losses")?)?;
    let settings = Settings::parse_from(iter::once("char-gru").chain(settings.split(' ')));
    let text = Text::new(&text, settings.batch, settings.seq)?;
    let mut trainer = Trainer::new(settings, text, &Device::flex());
    assert_eq!(there.len(), trainer.steps());
    for there in &there {
        let here = f64::from(read_sync(trainer.step())?.loss);
        let bound = if gpu { 1e-3 } else { 1e-4 };
        assert!(
            (here - there).abs() < bound,
            "{here} here, {there} in the browser"
        );
    }
    assert!(there[there.len() - 1] < 0.75 * there[0], "{there:?}");

    js(&tab, "$('prompt').value = 'The ', $('generate').click()")?;
    until(&tab, "$('generated').textContent.length === 504")?;
    let screenshot = tab.capture_screenshot(Png, None, None, true)?;
    fs::write(folder.join("page.png"), screenshot)?;
    js(
        &tab,
        "$('settings').value = '--hidden 0', $('train').click()",
    )?;
    until(&tab, "status().includes('--hidden')")
}

/// Evaluates an expression on the page.
fn js(tab: &Arc<Tab>, expression: &str) -> Outcome<Value> {
    let found = tab.evaluate(&format!("JSON.stringify({expression}) ?? 'null'"), false)?;
    let found = found.value.unwrap_or_default();
    Ok(serde_json::from_str(found.as_str().unwrap_or("null"))?)
}

/// Waits until a condition holds.
fn until(tab: &Arc<Tab>, condition: &str) -> Outcome {
    let start = Instant::now();
    // An error while the page loads.
    while js(tab, condition).ok() != Some(Value::Bool(true)) {
        if start.elapsed() > PATIENCE {
            return Err(format!("{condition}: the page says {:?}", js(tab, "status()")).into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
