//! A Burn server with the operator, in a child process that runs this program.

use super::backends::{OtherBackend, other_device};
use burn::{
    backend::{Flex, ir::BackendIr},
    remote::RemoteHost,
    server::{CustomOpRegistry, RemoteServer, ServeError, WebSocketTransport},
    tensor::Device,
};
use gru_op::{backend::GruBackend, remote};
use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    net::TcpListener,
    process::{self, Child, Command, Stdio},
    thread,
};

/// If set to the name of a [`Kind`], this program serves instead of testing.
const ROLE: &str = "GRU_TESTS_SERVE";

/// The content of a server.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// The operator on Flex.
    Flex,
    /// The operator on another backend.
    Other,
    /// The operator on wgpu's best adapter.
    Wgpu,
    /// Flex without the operator.
    Bare,
    /// Flex with the operator in another encoding.
    Newer,
}

const KINDS: [Kind; 5] = [Kind::Flex, Kind::Other, Kind::Wgpu, Kind::Bare, Kind::Newer];

/// Serves until standard input ends, if this process was started as a server.
pub fn serve_if_asked() {
    let Ok(name) = env::var(ROLE) else {
        return;
    };
    let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == name);
    let kind = kind.unwrap_or_else(|| panic!("{ROLE}: no server {name:?}"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port exists");
    println!("{}", listener.local_addr().expect("the listener is bound"));
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    let served = match kind {
        Kind::Other => serve::<OtherBackend>(other_device(), listener, with_operator),
        Kind::Flex => serve::<Flex>(Device::flex(), listener, with_operator),
        #[cfg(feature = "gpu")]
        Kind::Wgpu => {
            use burn::{backend::Cube, tensor::DeviceKind};
            serve::<Cube>(
                Device::wgpu(DeviceKind::DefaultDevice),
                listener,
                with_operator,
            )
        }
        #[cfg(not(feature = "gpu"))]
        Kind::Wgpu => panic!("this build does not include wgpu"),
        Kind::Bare => serve::<Flex>(Device::flex(), listener, |_| {}),
        Kind::Newer => serve::<Flex>(Device::flex(), listener, newer),
    };
    served.expect("the server runs until standard input ends");
}

fn serve<B: BackendIr>(
    device: Device,
    listener: TcpListener,
    register: fn(&mut CustomOpRegistry<B>),
) -> Result<(), ServeError> {
    let mut operations = CustomOpRegistry::new();
    register(&mut operations);
    RemoteServer::new([device])
        .with_custom_ops(operations)
        .serve(WebSocketTransport::from_listener(listener))
}

fn with_operator<B: BackendIr + GruBackend>(registry: &mut CustomOpRegistry<B>) {
    remote::register(registry);
}

/// The operator of a later release.
fn newer(registry: &mut CustomOpRegistry<Flex>) {
    use burn::{backend::ops::IntTensorOps, tensor::TensorData};
    remote::register(registry);
    registry.register("gru_op::encoding", |handles, op, device| {
        let encoding = Flex::int_from_data(TensorData::from([1_000_i32]), device);
        handles.register_int_tensor::<Flex>(&op.outputs[0].id, encoding);
    });
}

/// A running server. Dropping the value ends it. It also ends with this process.
pub struct Server {
    process: Child,
    address: String,
}

impl Server {
    pub fn start(kind: Kind) -> io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .env(ROLE, format!("{kind:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = process.stdout.take().expect("standard output is piped");
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        Ok(Self {
            process,
            address: address.trim_end().into(),
        })
    }

    pub fn host(&self) -> RemoteHost {
        RemoteHost::websocket(&format!("ws://{}", self.address))
    }

    /// A connected device of the server.
    pub fn device(&self) -> Result<Device, String> {
        let options = Device::remote_options(&self.host());
        options.init().map_err(|reason| reason.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
