//! A visitor: a browser with the page.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use headless_chrome::protocol::cdp::{Emulation, Page};
use headless_chrome::{Browser, LaunchOptions, Tab};
use serde_json::Value;
use web::bundle::folder;

/// A time limit that suffices even while other builds run.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub type Outcome = Result<(), String>;

pub fn start(more: &[&str], port: Option<u16>) -> Result<Browser, String> {
    let flags = [
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ];
    let options = LaunchOptions {
        // Chromium has no sandbox for root, and tests in containers run as root.
        sandbox: false,
        port,
        idle_browser_timeout: PATIENCE,
        args: flags.iter().chain(more).map(OsStr::new).collect(),
        ..LaunchOptions::default()
    };
    Browser::new(options).map_err(text)
}

/// A browser with the page.
pub struct Visit {
    pub address: String,
    pub tab: Arc<Tab>,
    pub downloads: PathBuf,
    _browser: Browser,
}

impl Visit {
    pub fn new(address: &str, more: &[&str]) -> Result<Self, String> {
        let downloads = folder().join("downloads");
        let _ = fs::remove_dir_all(&downloads);
        fs::create_dir_all(&downloads).map_err(text)?;
        let browser = start(more, None)?;
        let tab = browser.new_tab().map_err(text)?;
        tab.set_default_timeout(PATIENCE);
        tab.call_method(Page::SetDownloadBehavior {
            behavior: Page::SetDownloadBehaviorBehaviorOption::Allow,
            download_path: Some(downloads.to_string_lossy().into()),
        })
        .map_err(text)?;
        tab.navigate_to(address).map_err(text)?;
        tab.wait_until_navigated().map_err(text)?;
        Ok(Self {
            address: address.to_string(),
            tab,
            downloads,
            _browser: browser,
        })
    }

    /// Evaluates an expression.
    pub fn js(&self, expression: &str) -> Result<Value, String> {
        let whole = format!(
            "(async () => JSON.stringify(await ({expression}) ?? null))()
                .catch((error) => 'failed: ' + (error.message ?? error))"
        );
        let found = self.tab.evaluate(&whole, true).map_err(text)?;
        let found = found
            .value
            .ok_or_else(|| format!("{expression}: no value"))?;
        let found = found.as_str().unwrap_or_default();
        serde_json::from_str(found).map_err(|_| format!("{expression}: {found}"))
    }

    pub fn status(&self) -> Result<String, String> {
        let status =
            self.js("document.getElementById('status')?.textContent ?? document.body.textContent")?;
        Ok(status.as_str().unwrap_or_default().to_string())
    }

    /// The bits per character on the page.
    pub fn reached(&self) -> Result<f64, String> {
        let output = self.status()?;
        let number = output.split_whitespace().find_map(|word| word.parse().ok());
        number.ok_or(output)
    }

    /// Waits until a condition holds, in which `status` is the page's status text. Fails while the page
    /// loads.
    pub fn until(&self, condition: &str) -> Outcome {
        let start = Instant::now();
        let whole = format!(
            "((status) => Boolean({condition}))(document.getElementById('status')?.textContent ?? '')"
        );
        loop {
            let answer = self.js(&whole);
            if answer == Ok(Value::Bool(true)) {
                return Ok(());
            }
            check(start.elapsed() < PATIENCE, || {
                format!("{condition}: {answer:?}, the page says {:?}", self.status())
            })?;
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn set(&self, id: &str, value: &str) -> Outcome {
        self.js(&format!(
            "((input) => {{
                input.value = {value:?};
                input.dispatchEvent(new Event('input', {{bubbles: true}}));
            }})(document.getElementById('{id}'))"
        ))
        .map(|_| ())
    }

    /// Sets fields of the form by name.
    pub fn settings(&self, settings: &[(&str, &str)]) -> Outcome {
        for (name, value) in settings {
            self.js(&format!(
                "document.querySelector('input[name={name}]').value = '{value}'"
            ))?;
        }
        Ok(())
    }

    /// Clicks by keyboard.
    pub fn click(&self, id: &str) -> Outcome {
        let button = self.tab.find_element(&format!("#{id}")).map_err(text)?;
        button.focus().map_err(text)?;
        self.tab.press_key("Enter").map_err(text)?;
        Ok(())
    }

    pub fn is_disabled(&self, id: &str) -> Result<bool, String> {
        let is = self.js(&format!("document.getElementById('{id}').disabled"))?;
        Ok(is == Value::Bool(true))
    }

    pub fn choose(&self, id: &str, file: &Path) -> Outcome {
        let input = self.tab.find_element(&format!("#{id}")).map_err(text)?;
        let path = file.to_string_lossy();
        input.set_input_files(&[&path]).map_err(text)?;
        Ok(())
    }

    /// Screenshots in light and dark, wide and narrow. Nothing may be wider than the window.
    pub fn screenshots(&self, folder: &Path, name: &str) -> Outcome {
        for (width, size) in [(1280, "wide"), (375, "narrow")] {
            self.window(width, 900)?;
            let wide = self.js("document.documentElement.scrollWidth")?;
            check(wide.as_u64() <= Some(u64::from(width)), || {
                format!("{wide} pixels wide in a window of {width}")
            })?;
            let high = self.js("document.documentElement.scrollHeight")?;
            self.window(width, high.as_u64().unwrap_or(900) as u32)?;
            for scheme in ["light", "dark"] {
                let feature = Emulation::MediaFeature {
                    name: "prefers-color-scheme".into(),
                    value: scheme.into(),
                };
                self.tab
                    .call_method(Emulation::SetEmulatedMedia {
                        media: None,
                        features: Some(vec![feature]),
                    })
                    .map_err(text)?;
                let png = Page::CaptureScreenshotFormatOption::Png;
                let shot = self.tab.capture_screenshot(png, None, None, true);
                let path = folder.join(format!("{name}-{size}-{scheme}.png"));
                fs::write(path, shot.map_err(text)?).map_err(text)?;
            }
        }
        Ok(())
    }

    fn window(&self, width: u32, height: u32) -> Outcome {
        self.tab
            .call_method(Emulation::SetDeviceMetricsOverride {
                width,
                height,
                device_scale_factor: 1.0,
                mobile: width < 500,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .map_err(text)?;
        // Waits until the page is drawn.
        self.js("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(0))))")?;
        Ok(())
    }
}

pub fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
