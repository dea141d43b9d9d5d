//! The operator on devices of other machines.
//!
//! A call on a remote device of Burn is one operation on its server, for any number of steps. The spec travels
//! with the call. The gates stay on the server for backward, and autodiff stays on the client. Register the
//! operator on the server:
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
//! # Panics
//! The first call on a device panics if the server does not have the operator, or uses another encoding. The
//! changelog lists releases that change the encoding.
//!
//! An invalid call (wrong shapes, unknown encoding) is logged and ends its session. Other sessions are
//! unaffected. Requests for memory are not limited, as for Burn's own operations.
//!
//! # Other backends
//! [`GruBlock`](crate::GruBlock) runs on any backend behind a server. Implement [`GruBackend`] for it (the
//! `impl` may be empty), and serve it with `burn_remote::server::BackendServer`.

use super::{GRADIENTS, STATES, STATES_AND_GATES, arguments, execute::execute};
use crate::backend::GruBackend;
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

/// The operation that returns the encoding of a server, one int32.
const ENCODING_OF_SERVER: &str = "gru_op::encoding";

/// Registers the operator on a server of backend `B`. It runs the kernels of `B`, if there are any.
pub fn register<B: BackendIr + GruBackend>(registry: &mut CustomOpRegistry<B>) {
    registry.register(ENCODING_OF_SERVER, |handles, op, device| {
        let ([], [answer]) = op.as_fixed();
        let encoding = TensorData::from([arguments::ENCODING as i32]);
        let encoding = B::int_from_data(encoding, device);
        handles.register_int_tensor::<B>(&answer.id, encoding);
    });
    for id in [STATES, STATES_AND_GATES, GRADIENTS] {
        registry.register(id, |handles, op, _| {
            // Burn ends the session of an operation that panics, and no other session.
            execute::<B>(handles, op).unwrap_or_else(|error| panic!("{}: {error}", op.id));
        });
    }
}

/// Panics if `device` is remote and its server does not run the operator. Checks each device once per process,
/// and never in a browser, which cannot wait for the answer.
#[allow(irrefutable_let_patterns)] // There may be no other backend.
pub(crate) fn expect_operator(op: &str, device: &Device) {
    static CHECKED: Mutex<Vec<RemoteDevice>> = Mutex::new(Vec::new());
    let plain = device.clone().inner();
    let DispatchDevice::Remote(remote) = plain.as_dispatch() else {
        return;
    };
    let checked = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if cfg!(target_family = "wasm") || checked().contains(remote) {
        return;
    }
    match encoding_of(remote) {
        Ok(arguments::ENCODING) => checked().push(remote.clone()),
        Ok(other) => panic!(
            "{op}: the server of {device:?} uses encoding {other} of gru-op, this program uses encoding {}; \
             use the same release of gru-op on both sides",
            arguments::ENCODING
        ),
        Err(reason) => panic!(
            "{op}: the server of {device:?} does not run this operator ({reason}); start it with \
             gru_op::remote::register"
        ),
    }
}

fn encoding_of(device: &RemoteDevice) -> Result<u64, String> {
    let client = CustomOpClient::new(device);
    let answer = TensorIr::uninit(client.create_empty_handle(), Shape::new([1]), DType::I32);
    let question = CustomOpIr::new(ENCODING_OF_SERVER, &[], &[answer]);
    let answer = client.register(question).remove(0);
    let answer =
        try_read_sync(Remote::int_into_data(answer)).ok_or("cannot wait for the answer")?;
    let answer = answer.map_err(|reason| reason.to_string())?;
    let encoding = answer.iter::<i64>().next().ok_or("the answer is empty")?;
    u64::try_from(encoding).map_err(|_| format!("the answer is {encoding}"))
}
