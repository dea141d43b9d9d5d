//! Opens the devices of a run, on this machine or on servers.

use std::panic::{self, AssertUnwindSafe};

use burn::tensor::Device;
use char_model::error::Error as ModelError;

use crate::backend::Backend;
use crate::error::Error;

/// Opens the devices of these servers, or the device of `backend` without servers.
pub fn open(servers: &[String], backend: Backend) -> Result<Vec<Device>, Error> {
    if servers.is_empty() {
        return Ok(vec![backend.device()?]);
    }
    servers.iter().map(|address| connect(address)).collect()
}

/// Runs `work` on the devices of these servers. Burn panics if a server is gone during a read. This converts the panic
/// to an error.
pub fn guard<T>(servers: &[String], work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if servers.is_empty() {
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
