//! Makes this machine's CPU available to Burn programs on other machines: a Burn server that runs the GRU operator.

use std::error::Error;
use std::net::TcpListener;

use burn::backend::Flex;
use burn::server::{CustomOpRegistry, RemoteServer, WebSocketTransport};
use burn::tensor::Device;

fn main() -> Result<(), Box<dyn Error>> {
    // Port 0 is a free port.
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000"))?;
    println!("ws://{}", listener.local_addr()?);
    // For a GPU, use `Cube` and `Device::wgpu` or `Device::cuda`, with these features of Burn and gru-op.
    let mut operations = CustomOpRegistry::<Flex>::new();
    gru_op::remote::register(&mut operations);
    RemoteServer::new([Device::flex()])
        .with_custom_ops(operations)
        .serve(WebSocketTransport::from_listener(listener))?;
    Ok(())
}
