//! The operator on devices of other machines.
//!
//! A call on a remote device of Burn is one operation for its server, however many steps the
//! sequence has: the spec travels with it, the gates stay there for the backward, and autodiff stays
//! with the client. The server must have been given the operator:
//!
//! ```rust,ignore
//! use burn::{
//!     backend::Flex,
//!     server::{CustomOpRegistry, RemoteServer, WebSocketTransport},
//!     tensor::Device,
//! };
//!
//! let mut operations = CustomOpRegistry::<Flex>::new();
//! gru_op::remote::register(&mut operations);
//! RemoteServer::new([Device::flex()])
//!     .with_custom_ops(operations)
//!     .serve(WebSocketTransport::new(3000))?;
//! ```
//!
//! The first call of a client on a device asks for that, and panics if the server has not got it or
//! writes calls in another way; a release of this crate that changes the way says so. A call that is
//! none (shapes that do not fit, numbers that nobody writes) ends its session, with a line in the
//! server's log, and disturbs no other. How much memory a client asks for is not bounded, here as in
//! Burn's own operations.
//!
//! A backend of someone else, too, is within reach of [`GruBlock`](crate::GruBlock) in this way:
//! implement [`GruBackend`] for it, which may be an empty `impl`, and serve it with
//! `burn_remote::server::BackendServer`.

use crate::{backend::GruBackend, backend::deferred};
use burn::{
    backend::{
        DispatchDevice, Remote, RemoteDevice,
        ir::{BackendIr, CustomOpIr, TensorIr},
        ops::IntTensorOps,
    },
    remote::CustomOpClient,
    tensor::{DType, Device, Shape, TensorData, try_read_sync},
};
use burn_router::CustomOpRegistry;
use std::sync::{Mutex, PoisonError};

/// Which encoding a server reads, as one int32.
const ENCODING: &str = "gru_op::encoding";

/// Gives a server of backend `B` the operator. It runs what `B` runs anywhere: its kernels, where
/// it has them.
pub fn register<B: BackendIr + GruBackend>(registry: &mut CustomOpRegistry<B>) {
    registry.register(ENCODING, |handles, op, device| {
        let ([], [answer]) = op.as_fixed();
        let encoding = TensorData::from([deferred::ENCODING as i32]);
        let encoding = B::int_from_data(encoding, device);
        handles.register_int_tensor::<B>(&answer.id, encoding);
    });
    for id in [
        deferred::STATES,
        deferred::STATES_AND_GATES,
        deferred::GRADIENTS,
    ] {
        registry.register(id, |handles, op, _| {
            // Burn ends the session of an operation that panics, and no other one.
            deferred::execute::<B>(handles, op)
                .unwrap_or_else(|reason| panic!("{}: {reason}", op.id));
        });
    }
}

/// Panics unless the server of `device` runs the operator, if it is the device of a server. Asks
/// once in the life of a process; in a browser, which cannot wait for an answer, never.
pub(crate) fn expect_operator(op: &str, device: &Device) {
    static HAVE_IT: Mutex<Vec<RemoteDevice>> = Mutex::new(Vec::new());
    let plain = device.clone().inner();
    let DispatchDevice::Remote(remote) = plain.as_dispatch() else {
        return;
    };
    let have_it = || HAVE_IT.lock().unwrap_or_else(PoisonError::into_inner);
    if cfg!(target_family = "wasm") || have_it().contains(remote) {
        return;
    }
    match encoding_of(remote) {
        Ok(deferred::ENCODING) => have_it().push(remote.clone()),
        Ok(theirs) => panic!(
            "{op}: the server of {device:?} reads encoding {theirs} of gru-op, this is encoding \
             {}: use the same release of gru-op on both sides",
            deferred::ENCODING
        ),
        Err(reason) => panic!(
            "{op}: the server of {device:?} does not run this operator: it must be started with \
             gru_op::remote::register (asking it failed: {reason})"
        ),
    }
}

fn encoding_of(device: &RemoteDevice) -> Result<u64, String> {
    let client = CustomOpClient::new(device);
    let answer = TensorIr::uninit(client.create_empty_handle(), Shape::new([1]), DType::I32);
    let question = CustomOpIr::new(ENCODING, &[], &[answer]);
    let answer = client.register(question).remove(0);
    let answer = try_read_sync(Remote::int_into_data(answer)).ok_or("it cannot be waited for")?;
    let answer = answer.map_err(|reason| reason.to_string())?;
    let encoding = answer.iter::<i64>().next().ok_or("the answer is empty")?;
    u64::try_from(encoding).map_err(|_| format!("the answer is {encoding}"))
}
