//! What CubeCL requires of a server: memory, copies, launches.

use super::{Mode, Threads};
use cubecl::{
    CubeKernel, MemoryAllocationMode,
    dry_run::LaunchMode,
    logging::ServerLogger,
    prelude::*,
    profile::ProfileDuration,
    server::{
        BufferBinding, CopyDescriptor, Handle, IoError, KernelArguments, MemoryLayout,
        MemoryLayoutDescriptor, MemoryLayoutPolicy, ProfileError, ProfilingToken, Server,
        ServerCommunication, ServerError, ServerStorage, ServerUtilities,
    },
    zspace::Strides,
};
use cubecl_common::device::ServiceId;
use cubecl_environment::{backtrace::BackTrace, bytes::Bytes, future::DynFut, stream::StreamId};
use cubecl_runtime::{
    memory_management::{ManagedMemoryHandle, StreamMemoryReport},
    storage::{ComputeStorage, ManagedResource, StorageHandle, StorageId},
};
use std::sync::Arc;

fn error(reason: String) -> ServerError {
    ServerError::Generic {
        reason,
        backtrace: BackTrace::default(),
    }
}

/// Dense rows, one allocation after another.
pub struct Dense;

impl MemoryLayoutPolicy for Dense {
    fn apply(
        &self,
        service: ServiceId,
        stream: StreamId,
        descriptors: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        let size = |of: &MemoryLayoutDescriptor| {
            (of.shape.iter().product::<usize>() * of.elem_size) as u64
        };
        let total = descriptors.iter().map(size).sum();
        let whole = Handle::new(service, stream, total);
        let mut start = 0;
        let layouts = descriptors.iter().map(|of| {
            let end = start + size(of);
            let part = whole.clone().offset_start(start).offset_end(total - end);
            start = end;
            let mut strides = vec![1; of.shape.len()];
            for i in (1..strides.len()).rev() {
                strides[i - 1] = strides[i] * of.shape[i];
            }
            MemoryLayout::new(part, Strides::new(&strides))
        });
        let layouts = layouts.collect();
        (whole, layouts)
    }
}

impl ServerCommunication for Threads {}

impl Server for Threads {
    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        size: u64,
        _stream: StreamId,
    ) -> Result<(), ServerError> {
        if let Mode::Run(_) = self.mode {
            // NaN in every type.
            let bytes = vec![0xff; size as usize];
            self.buffers.insert(memory.descriptor().id, Ok(bytes));
        }
        Ok(())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        descriptors: Vec<CopyDescriptor>,
        _stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let read = |of: &CopyDescriptor| {
            let bytes = self.bytes(&of.handle).map_err(error)?;
            let len = of.shape.iter().product::<usize>() * of.elem_size;
            Ok(Bytes::from_bytes_vec(bytes[..len].to_vec()))
        };
        let all = descriptors.iter().map(read).collect();
        Box::pin(async move { all })
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, _stream: StreamId) {
        for (to, data) in descriptors {
            let start = to.handle.range().start as usize;
            if let Some(Ok(bytes)) = self.buffers.get_mut(&to.handle.memory.id()) {
                bytes[start..start + data.len()].copy_from_slice(&data);
            }
        }
    }

    fn sync(
        &mut self,
        handles: Vec<BufferBinding>,
        stream: StreamId,
    ) -> DynFut<Result<(), ServerError>> {
        let checked = self.check(handles, stream);
        Box::pin(async move { checked })
    }

    fn check(&mut self, handles: Vec<BufferBinding>, _stream: StreamId) -> Result<(), ServerError> {
        let mut all = handles.iter().map(|handle| self.bytes(handle));
        all.try_for_each(|bytes| bytes.map(|_| ()).map_err(error))
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        _stream: StreamId,
        _mode: LaunchMode,
    ) {
        if let Err(report) = self.run(&*kernel, &count, &arguments) {
            for id in arguments.memory_ids() {
                self.buffers.insert(id, Err(report.clone()));
            }
        }
    }

    fn flush(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _stream: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _stream: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(error("threads are not timed".into()))
    }

    fn end_profile(
        &mut self,
        _stream: StreamId,
        _token: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered {
            backtrace: BackTrace::default(),
        })
    }

    fn allocation_mode(&mut self, _mode: MemoryAllocationMode, _stream: StreamId) {}
}

/// CubeCL requires a type of storage. Nothing here hands out resources of one.
pub struct NoStorage;

impl ServerStorage for Threads {
    type Storage = NoStorage;

    fn get_resource(
        &mut self,
        _binding: BufferBinding,
        _stream: StreamId,
    ) -> Result<ManagedResource<()>, ServerError> {
        Err(no_storage().into())
    }
}

fn no_storage() -> IoError {
    IoError::UnsupportedIoOperation {
        backtrace: BackTrace::default(),
    }
}

impl ComputeStorage for NoStorage {
    type Resource = ();

    fn alignment(&self) -> usize {
        256
    }

    fn get(&mut self, _handle: &StorageHandle) -> Result<(), IoError> {
        Err(no_storage())
    }

    fn alloc(&mut self, _size: u64) -> Result<StorageHandle, IoError> {
        Err(no_storage())
    }

    fn dealloc(&mut self, _id: StorageId) {}

    fn flush(&mut self) {}

    fn bytes_allocated(&self) -> u64 {
        0
    }
}
