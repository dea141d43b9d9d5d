//! Fusion: a call is queued as one operation, and the backend below runs it in its turn.

use super::{
    defer::{Defer, defers},
    execute,
};
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
    below: PhantomData<B>,
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
        let refused = |reason| ExecutionError::with_context(format!("{}: {reason}", self.op.id));
        execute::<B>(handles, &self.op).map_err(refused)
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
            below: PhantomData,
        };
        client.register(StreamId::current(), OperationIr::Custom(op), queued)
    }
}

defers!(impl<B: FusionBackend + GruBackend> GruBackend for Fusion<B>);
