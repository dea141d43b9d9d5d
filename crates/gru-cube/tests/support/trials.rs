//! Trials that can be ignored with a reason, and the device of each.

use super::{Kernels, cases::Cases};
use cubecl::{
    Device,
    client::Client,
    device::{WgpuDevice, WgpuDeviceKind},
};
use gru_cube::Limits;
use gru_testkit::{case::Case, runs::Stop};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    cell::RefCell,
    env,
    sync::{Mutex, OnceLock},
};

/// Why a trial did not run.
#[derive(Debug)]
pub struct Ignored(pub String);

/// How a trial ends, unless it panics.
pub type Ran = Result<(), Ignored>;

/// A run that the device does not support is ignored.
///
/// # Panics
/// If it failed.
impl From<Stop> for Ignored {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Unsupported(reason) => Self(reason),
            Stop::Failed(message) => panic!("{message}"),
        }
    }
}

/// A trial that is ignored without an adapter, or if `test` returns why it cannot run on this adapter. With
/// `GRU_REQUIRE_GPU` a missing adapter is a failure.
pub fn trial(name: impl Into<String>, test: impl FnOnce() -> Ran + Send + 'static) -> Trial {
    static ADAPTERS: OnceLock<usize> = OnceLock::new();
    Trial::ignorable_test(name, move || {
        if *ADAPTERS.get_or_init(|| Device::enumerate_all().len()) == 0 {
            return if env::var_os("GRU_REQUIRE_GPU").is_some() {
                Err("no adapter, and GRU_REQUIRE_GPU is set".into())
            } else {
                Ok(Completion::ignored_with("no adapter"))
            };
        }
        Ok(match test() {
            Ok(()) => Completion::Completed,
            Err(Ignored(reason)) => Completion::ignored_with(reason),
        })
    })
}

/// A trial that runs on every adapter.
pub fn test(name: &str, test: fn()) -> Trial {
    trial(name, move || {
        test();
        Ok(())
    })
}

/// One trial for each case.
pub fn cases(name: &str, cases: Cases, check: fn(&Kernels, &Case) -> Ran) -> Vec<Trial> {
    let of = |(kernels, case): (Kernels, Case)| {
        trial(format!("{name}/{}", case.id()), move || {
            check(&kernels, &case)
        })
    };
    cases.into_iter().map(of).collect()
}

/// Runs the trials of a test binary.
pub fn run_trials(trials: Vec<Trial>) {
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The client of a test. A thread always has the same client.
///
/// A software driver compiles in one thread for each device, and most of a test's time is compilation. So the
/// threads share two devices of such an adapter.
pub fn client() -> Client {
    thread_local! {
        static PLACE: Place = Place::new();
    }
    let other = OTHER.with_borrow(Clone::clone);
    other.unwrap_or_else(|| PLACE.with(|place| place.client.clone()))
}

thread_local! {
    /// The device of [`on`].
    static OTHER: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// Runs a test on a device that is not an adapter.
pub fn on(client: Client, test: impl FnOnce()) {
    OTHER.set(Some(client));
    test();
    OTHER.set(None);
}

/// Opens the device of all trials, if it is not the default device.
static OPEN: OnceLock<fn() -> WgpuDevice> = OnceLock::new();

/// Runs all trials on another device.
pub fn on_device_of(open: fn() -> WgpuDevice) {
    OPEN.get_or_init(|| open);
}

struct Place {
    client: Client,
    device: usize,
}

/// Threads on each device.
static THREADS: Mutex<[usize; 2]> = Mutex::new([0; 2]);

impl Place {
    fn new() -> Self {
        let default = match OPEN.get() {
            Some(open) => Device::Wgpu(open()),
            None => Device::default(),
        };
        let default = default.client();
        let mut threads = THREADS.lock().unwrap();
        let fewer = usize::from(threads[1] < threads[0]);
        let device = if Limits::of(&default).cpu { fewer } else { 0 };
        threads[device] += 1;
        let client = match device {
            0 => default,
            _ => Device::Wgpu(WgpuDevice::new(WgpuDeviceKind::Cpu)).client(),
        };
        Self { client, device }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        THREADS.lock().unwrap()[self.device] -= 1;
    }
}
