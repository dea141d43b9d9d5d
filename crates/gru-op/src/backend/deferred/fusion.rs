//! Fusion: queues a call as one operation, which the inner backend runs.

use super::{defer::Defer, execute::execute};
use crate::backend::GruBackend;
use burn::backend::{
    fusion::{
        ExecutionError, Fusion, FusionBackend, FusionRuntime, FusionTensor,
        client::GlobalFusionClient,
        custom::{Operation, StreamId},
    },
    ir::{CustomOpIr, HandleContainer, OperationIr, TensorId, TensorIr},
};
use std::{fmt, marker::PhantomData};

struct Queued<B> {
    op: CustomOpIr,
    inner: PhantomData<B>,
}

impl<B> fmt::Debug for Queued<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.op.id)
    }
}

impl<B: FusionBackend + GruBackend> Operation<B::FusionRuntime> for Queued<B> {
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) -> Result<(), ExecutionError> {
        let error = |error| ExecutionError::with_context(format!("{}: {error}", self.op.id));
        execute::<B>(handles, &self.op).map_err(error)
    }
}

impl<B: FusionBackend + GruBackend> Defer for Fusion<B> {
    type Client = GlobalFusionClient<B::FusionRuntime>;

    fn client(tensor: &FusionTensor<B::FusionRuntime>) -> Self::Client {
        tensor.client.clone()
    }

    fn new_id(client: &Self::Client) -> TensorId {
        client.create_empty_handle()
    }

    fn into_ir(tensor: FusionTensor<B::FusionRuntime>) -> TensorIr {
        tensor.into_ir()
    }

    fn register(client: &Self::Client, op: CustomOpIr) -> Vec<FusionTensor<B::FusionRuntime>> {
        let queued = Queued::<B> {
            op: op.clone(),
            inner: PhantomData,
        };
        client.register(StreamId::current(), OperationIr::Custom(op), queued)
    }
}

implement!(deferred::defer: impl<B: FusionBackend + GruBackend> GruBackend for Fusion<B>);
