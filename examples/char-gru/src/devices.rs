//! Opens the devices of a list on the command line, on this machine and on others.

use std::panic::{self, AssertUnwindSafe};
use std::str::FromStr;

use burn::tensor::Device;
use char_model::error::Error as ModelError;

use crate::backend::Backend;
use crate::error::Error;

/// Maximum number of devices of one kind, so that a typo is an argument error.
const MOST: usize = 64;

/// A device for a part of each batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// This many times the backend of this program.
    Local(usize),
    /// The server with this address.
    Server(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("ws://") {
            return Ok(Self::Server(text.to_string()));
        }
        let count = text.strip_prefix("local:").and_then(|k| k.parse().ok());
        match count {
            Some(count) if (1..=MOST).contains(&count) => Ok(Self::Local(count)),
            Some(count) => Err(format!("expected 1 to {MOST} local devices, got {count}")),
            None => Err("expected ws://HOST:PORT or local:K".to_string()),
        }
    }
}

/// Opens all devices, or the one device of `backend` if the list is empty.
pub fn open(places: &[Place], backend: Backend) -> Result<Vec<Device>, Error> {
    if places.is_empty() {
        return Ok(vec![backend.device()?]);
    }
    let mut devices = Vec::new();
    for place in places {
        match place {
            Place::Local(count) => {
                let device = backend.device()?;
                devices.extend(std::iter::repeat_n(device, *count));
            }
            Place::Server(address) => devices.push(connect(address)?),
        }
    }
    Ok(devices)
}

/// Runs `work` on these devices. Burn panics if a server is gone during a read. This converts the panic
/// to an error.
pub fn guard<T>(places: &[Place], work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if !places.iter().any(|place| matches!(place, Place::Server(_))) {
        return work();
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    done.unwrap_or_else(|reason| {
        let text = reason.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| reason.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("the server is gone").to_string();
        Err(ModelError::device(text).into())
    })
}

#[cfg(feature = "remote")]
fn connect(address: &str) -> Result<Device, Error> {
    let host = burn::remote::RemoteHost::websocket(address);
    let connected = Device::remote_options(&host).init();
    connected.map_err(|reason| Error::Unreachable {
        address: address.to_string(),
        reason: reason.to_string(),
    })
}

#[cfg(not(feature = "remote"))]
fn connect(_: &str) -> Result<Device, Error> {
    Err(Error::RemoteMissing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let read = |text: &str| text.parse::<Place>();
        assert_eq!(read("local:3"), Ok(Place::Local(3)));
        assert_eq!(
            read("ws://gpu:3000"),
            Ok(Place::Server("ws://gpu:3000".into()))
        );
        for bad in [
            "",
            "local",
            "local:",
            "local:-1",
            "local:0",
            "local:65",
            "http://gpu:1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
