//! Burn's router: a remote server runs a call as one operation, and a capture records it as one.

use super::defer::Defer;
use crate::backend::GruBackend;
use burn::backend::ir::{CustomOpIr, OperationIr, TensorId, TensorIr};
use burn_router::{BackendRouter, RouterChannel, RouterClient, RouterTensor};

impl<C: RouterChannel> Defer for BackendRouter<C> {
    type Client = C::Client;

    fn client(tensor: &RouterTensor<C::Client>) -> Self::Client {
        tensor.client.clone()
    }

    fn new_id(client: &Self::Client) -> TensorId {
        client.create_empty_handle()
    }

    fn into_ir(tensor: RouterTensor<C::Client>) -> TensorIr {
        tensor.into_ir()
    }

    fn register(client: &Self::Client, op: CustomOpIr) -> Vec<RouterTensor<C::Client>> {
        client.register(OperationIr::Custom(op))
    }
}

implement!(deferred::defer: impl<C: RouterChannel> GruBackend for BackendRouter<C>);
