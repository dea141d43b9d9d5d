//! Tests the page in a real browser: builds it, serves it, and uses it as a visitor does.
//!
//! Requires Chromium (or Chrome, Edge), a compiler for WebAssembly, and its crates. If one is missing,
//! the page's trials are ignored, or fail if `GRU_REQUIRE_BROWSER` is set. Screenshots are written to
//! the folder `screenshots` next to the page.

mod server;
mod visit;

use std::env;
use std::f64::consts::LN_2;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use burn::tensor::{Device, read_sync};
use char_model::data::Corpus;
use char_model::model::CharGruConfig;
use char_model::ngram::Reference;
use char_model::sample::{Choice, Writer};
use char_model::trainer::{Settings, Trainer};
use char_model::vocabulary::Vocabulary;
use char_model::{exchange, file};
use headless_chrome::browser::default_executable;
use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;
use server::Server;
use visit::{Outcome, PATIENCE, Visit, check, start, text};
use web::bundle::{bundle, folder, is_recent, possible};

const REQUIRE: &str = "GRU_REQUIRE_BROWSER";
/// Compressed bytes.
const LARGEST_DOWNLOAD: usize = 5_000_000;

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("compiler", || Ok(compiler_is_recent()?)),
        trial("page", page),
        // Building Burn's GPU side for WebAssembly takes half an hour, so this trial runs only on
        // request.
        trial("webgpu", webgpu).with_ignored_flag(true),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// Ignored with the reason if no browser starts or the page cannot be built.
fn trial(name: &str, test: fn() -> Outcome) -> Trial {
    Trial::ignorable_test(name, move || match possible_here() {
        Ok(()) => {
            test()?;
            Ok(Completion::Completed)
        }
        Err(reason) if env::var_os(REQUIRE).is_some() => {
            Err(format!("{reason}, and {REQUIRE} is set").into())
        }
        Err(reason) => Ok(Completion::ignored_with(reason)),
    })
}

/// Checks that a browser starts and that the page can be built.
fn possible_here() -> Outcome {
    default_executable().map_err(|_| "no Chromium")?;
    possible().map_err(text)?;
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    // With a fixed port, one start is tried for at most 30 seconds. The first start may be slow.
    let port = Some(free.map_err(text)?.port());
    let started = start(&[], port).or_else(|_| start(&[], port));
    started
        .map(drop)
        .map_err(|reason| format!("Chromium does not start: {reason}"))
}

fn compiler_is_recent() -> Outcome {
    for (output, expected) in [
        ("cargo 1.94.1 (29ea6fb6a 2026-03-24)", false),
        ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", true),
        ("cargo 1.100.0-nightly", true),
        ("cargo 2.0.0", true),
        ("cargo", false),
        ("cargo 1", false),
    ] {
        check(is_recent(output) == expected, || output.to_owned())?;
    }
    Ok(())
}

/// Builds the page. The download must be small: a visit on the CPU does not load the other module.
fn build(name: &str, webgpu: bool) -> Result<PathBuf, String> {
    let page = folder().join(name);
    let stale = page.join("char_web_gpu.js");
    if !webgpu {
        fs::create_dir_all(&page).map_err(text)?;
        fs::write(&stale, "an earlier build").map_err(text)?;
    }
    let files = bundle(&page, webgpu).map_err(text)?;
    let loaded = files.iter().filter(|file| !file.name.contains("_gpu"));
    let compressed: usize = loaded.map(|file| file.compressed).sum();
    check(compressed < LARGEST_DOWNLOAD, || {
        format!("{compressed} bytes to download")
    })?;
    check(stale.exists() == webgpu, || {
        format!("{}: expected it only with WebGPU", stale.display())
    })?;
    Ok(page)
}

/// One browser for all trials, in the order of a visit.
fn page() -> Outcome {
    let shots = folder().join("screenshots");
    let _ = fs::remove_dir_all(&shots);
    fs::create_dir_all(&shots).map_err(text)?;
    let server = Server::start(&build("page", false)?)?;
    let visit = Visit::new(&server.address, &[])?;
    for step in [
        first_sight,
        same_losses_as_here,
        errors_are_shown,
        learns,
        stops_and_resumes,
        writes,
        models_export_and_import,
        loads_only_its_own_files,
    ] {
        step(&visit, &shots)?;
    }
    visit.js("navigator.serviceWorker.ready.then(() => true)")?;
    drop(server);
    without_a_server(&visit)
}

/// Training on Chromium's own adapter, which runs on the CPU. It is slow but runs the same shaders.
fn webgpu() -> Outcome {
    let server = Server::start(&build("page-webgpu", true)?)?;
    let visit = Visit::new(
        &server.address,
        &[
            "--enable-unsafe-webgpu",
            "--use-webgpu-adapter=swiftshader",
            "--enable-features=Vulkan",
        ],
    )?;
    visit.until("status.startsWith('Ready')")?;
    // The device draws dropout, and a GPU draws other values.
    same_losses(&visit, "webgpu", 0.0, 30, 1e-3)?;
    let switch = "document.querySelector('input[value=webgpu]')";
    visit.until(&format!("!{switch}.disabled"))?;
    visit.js(&format!("{switch}.click()"))?;
    let some: String = lipsum::LIBER_PRIMUS.chars().take(3000).collect();
    visit.set("text", &some)?;
    visit.settings(&[("hidden", "32"), ("embed", "16"), ("epochs", "2")])?;
    visit.click("train")?;
    visit.until("status.startsWith('Done')")?;
    visit.click("write")?;
    visit.until("document.getElementById('written').textContent.length === 500")
}

fn first_sight(visit: &Visit, shots: &Path) -> Outcome {
    visit.until("status.startsWith('Ready')")?;
    let text = visit.js("document.getElementById('text').value.length")?;
    check(text.as_u64() > Some(10_000), || format!("a text of {text}"))?;
    visit.screenshots(shots, "first")
}

/// The same seed in the browser and in this program.
fn same_losses_as_here(visit: &Visit, _: &Path) -> Outcome {
    same_losses(visit, "cpu", 0.25, 60, 1e-4)
}

/// The same seed and number of steps in the browser and in this program.
fn same_losses(visit: &Visit, on: &str, dropout: f64, steps: usize, apart: f64) -> Outcome {
    let short: String = lipsum::LIBER_PRIMUS.chars().take(9000).collect();
    let options = format!(
        "{{embed: 16, hidden: 24, layers: 2, dropout: {dropout}, epochs: 2, batch: 8, seq: 32,
        lr: 0.01, clip: 1, validation: 0.1, seed: 7}}"
    );
    let there = visit.js(&format!(
        "new Promise((resolve, reject) => {{
            const worker = new Worker('worker.js', {{type: 'module'}});
            const losses = [];
            worker.onmessage = ({{data}}) => {{
                if (data.type === 'opened') worker.postMessage({{type: 'train', text: {short:?},
                    options: {options}, device: '{on}'}});
                if (data.type === 'steps') losses.push(...data.made.map((made) => made.loss));
                if (data.type === 'failed') reject(data.reason);
                if (losses.length >= {steps}) {{ worker.terminate(); resolve(losses); }}
            }};
            worker.postMessage({{type: 'open', device: '{on}'}});
        }})"
    ))?;
    let there: Vec<f64> = serde_json::from_value(there).map_err(text)?;

    let corpus = Corpus::new(&short, 0.1, 32).map_err(text)?;
    let device = Device::flex().autodiff();
    device.seed(7);
    let model = CharGruConfig::new(corpus.vocabulary.len(), 16, 24, 2, dropout).init(&device);
    let settings = Settings {
        epochs: 2,
        batch: 8,
        seq: 32,
        rate: 0.01,
        clip: 1.0,
        seed: 7,
    };
    let mut trainer = Trainer::new(settings, &corpus, model, &[device]);
    for (k, there) in there.iter().take(steps).enumerate() {
        let here = f64::from(read_sync(trainer.step()).map_err(text)?.loss);
        check((here - there).abs() < apart, || {
            format!("step {}: {there} in the browser, {here} here", k + 1)
        })?;
    }
    Ok(())
}

fn errors_are_shown(visit: &Visit, _: &Path) -> Outcome {
    visit.set("text", "short")?;
    visit.click("train")?;
    visit.until("status.includes('too short')")?;
    let foreign = folder().join("foreign.bpk");
    fs::write(&foreign, b"no model at all").map_err(text)?;
    visit.choose("model-file", &foreign)?;
    visit.until("status.includes('Cannot load foreign.bpk')")?;
    check(visit.is_disabled("write")?, || {
        "expected the button to be disabled without a model".into()
    })
}

/// The loss falls below the loss of the 2-gram model.
fn learns(visit: &Visit, shots: &Path) -> Outcome {
    let some: String = lipsum::LIBER_PRIMUS.chars().take(20_000).collect();
    visit.set("text", &some)?;
    visit.settings(&[
        ("hidden", "64"),
        ("embed", "32"),
        ("epochs", "20"),
        ("lr", "0.01"),
    ])?;
    visit.click("train")?;
    visit.until("status.startsWith('Epoch 2')")?;
    visit.screenshots(shots, "learning")?;
    visit.until("status.startsWith('Done')")?;
    let goes_on = visit.js("!document.getElementById('pause').hidden")?;
    check(goes_on == Value::Bool(false), || {
        "expected no step after the end".into()
    })?;
    let samples = visit.js("document.querySelectorAll('#samples li').length")?;
    check(samples.as_u64() > Some(0), || "no sample was shown".into())?;

    let (reached, pairs) = (visit.reached()?, pairs(&some)?);
    check(reached < pairs, || {
        format!("{reached} bits per character, expected less than {pairs} of the 2-gram model")
    })?;
    visit.screenshots(shots, "done")
}

/// The loss of the 2-gram model on the last tenth of a text, in bits per character.
fn pairs(of: &str) -> Result<f64, String> {
    let corpus = Corpus::new(of, 0.1, 64).map_err(text)?;
    Ok(Reference::new(&corpus).bigram / LN_2)
}

fn stops_and_resumes(visit: &Visit, _: &Path) -> Outcome {
    visit.click("train")?;
    visit.until("status.startsWith('Epoch')")?;
    visit.click("pause")?;
    visit.until("document.getElementById('pause').textContent === 'Resume'")?;
    let stopped = visit.status()?;
    thread::sleep(Duration::from_millis(500));
    check(visit.status()? == stopped, || {
        "expected the run to stop".into()
    })?;
    visit.click("pause")?;
    visit.until("document.getElementById('pause').textContent === 'Stop'")?;
    visit.until(&format!("status !== {stopped:?}"))?;
    // Waits until there is a model again.
    visit.until("!document.getElementById('write').disabled")?;
    // A request that fails does not stop the run.
    visit.set("prompt", "Ω")?;
    visit.click("write")?;
    visit.until("status.includes('does not know these characters')")?;
    visit.until("document.getElementById('pause').textContent === 'Stop'")?;
    visit.click("pause")?;
    visit.until("document.getElementById('pause').textContent === 'Resume'")?;
    // A run that cannot start ends the run before, so there is nothing to resume.
    let before = visit.js("document.getElementById('text').value")?;
    visit.set("text", "short")?;
    visit.click("train")?;
    visit.until("status.includes('too short')")?;
    visit.until("document.getElementById('pause').hidden")?;
    visit.set("text", before.as_str().unwrap_or_default())
}

fn writes(visit: &Visit, shots: &Path) -> Outcome {
    visit.set("prompt", "Lorem")?;
    visit.set("length", "300")?;
    visit.click("write")?;
    visit.until("document.getElementById('written').textContent.length === 305")?;
    visit.screenshots(shots, "written")?;
    visit.set("prompt", "Ω")?;
    visit.click("write")?;
    visit.until("status.includes('does not know these characters')")
}

/// Exports to char-gru's reader and imports after a reload. Also imports an export of char-gru.
fn models_export_and_import(visit: &Visit, _: &Path) -> Outcome {
    let saved = visit.downloads.join("model.bpk");
    visit.click("download")?;
    let start = Instant::now();
    // An empty file with this name may exist before the complete file.
    while fs::metadata(&saved).map_or(0, |file| file.len()) == 0 {
        check(start.elapsed() < PATIENCE, || "no download".into())?;
        thread::sleep(Duration::from_millis(50));
    }
    let device = Device::flex();
    let (model, _, vocabulary) = file::load(&saved, &device).map_err(text)?;
    let choice = Choice {
        temperature: 0.7,
        top_k: None,
        seed: 1,
    };
    let mut writer = Writer::new(&model, &[0], choice, &device);
    read_sync(writer.write()).map_err(text)?;

    visit.tab.reload(true, None).map_err(text)?;
    visit.until("status.startsWith('Ready')")?;
    let exported = visit.downloads.join("other.safetensors");
    let other = CharGruConfig::new(3, 8, 12, 2, 0.0).init(&device);
    let abc = Vocabulary::new("abc".chars().collect()).map_err(text)?;
    let dict = exchange::export(&other, &abc).map_err(text)?;
    dict.to_safetensors(&exported).map_err(text)?;
    let units = [
        (&saved, format!("{} characters", vocabulary.len())),
        (&exported, "2 × 12 units".to_string()),
    ];
    for (file, facts) in units {
        visit.choose("model-file", file)?;
        visit.until(&format!(
            "document.getElementById('model-facts').textContent.includes({facts:?})"
        ))?;
        visit.set("prompt", "")?;
        visit.set("length", "40")?;
        visit.js("document.getElementById('written').textContent = ''")?;
        visit.click("write")?;
        visit.until("document.getElementById('written').textContent.length === 40")?;
    }
    Ok(())
}

fn loads_only_its_own_files(visit: &Visit, _: &Path) -> Outcome {
    let loaded = visit.js("performance.getEntriesByType('resource').map((entry) => entry.name)")?;
    let loaded: Vec<String> = serde_json::from_value(loaded).map_err(text)?;
    check(loaded.len() > 3, || format!("{loaded:?}"))?;
    let ours = |name: &String| name.starts_with(&visit.address) || name.starts_with("data:");
    check(loaded.iter().all(ours), || format!("{loaded:?}"))
}

fn without_a_server(visit: &Visit) -> Outcome {
    let gone = visit.js("fetch('page.js', {cache: 'no-store', method: 'HEAD'})");
    check(gone.is_err(), || "expected no server".into())?;
    visit.tab.reload(false, None).map_err(text)?;
    visit.until("status.startsWith('Ready')")?;
    visit.click("train")?;
    visit.until("status.startsWith('Epoch')")
}
