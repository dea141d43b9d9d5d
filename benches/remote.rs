//! The cost of a remote device: requests, bytes, round trips and time of a sequence and of a training
//! step, for `GruBlock` and Burn's own `Gru`, over networks with 0, 1 and 10 ms latency in each
//! direction.
//!
//!     cargo bench -p gru-benches --features remote --bench remote
//!
//! Server, network and client share one machine, so the times include the computation. A request asks
//! the server to run an operation or a graph of operations, or to return data. Round trips are the added
//! time with 10 ms latency, divided by 20 ms.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burn::backend::Flex;
use burn::module::Module;
use burn::nn::gru::{Gru, GruConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::remote::RemoteHost;
use burn::server::telemetry::{TelemetryEvent, TelemetryProbe, TelemetrySubscription};
use burn::server::{CustomOpRegistry, RemoteServer, WebSocketTransport};
use burn::tensor::{Device, Distribution, Tensor};
use gru_op::{GruBlock, GruBlockConfig};
use gru_testkit::proxy::Proxy;

/// With a larger T, Burn's `Gru` takes tens of seconds, or its session ends.
const BURNS_LONGEST: usize = 64;
/// N, T, I, H.
const SHAPES: [[usize; 4]; 3] = [[16, 16, 64, 128], [16, 64, 64, 128], [16, 256, 64, 128]];
/// In each direction, in milliseconds.
const LATENCIES: [u64; 3] = [0, 1, 10];
const WARM_UP: usize = 3;
const RUNS: usize = 7;
/// Wait time before the requests are counted, so that pending requests arrive.
const SETTLE: Duration = Duration::from_millis(100);

fn main() {
    let (address, mut events) = serve();
    println!(
        "shape             what      layer   latency   requests   kB sent   kB read       ms   round trips"
    );
    for shape in SHAPES {
        for what in [What::Sequence, What::Step] {
            let ours =
                |device: &Device| work(GruBlockConfig::new(shape[2], shape[3]).init(device), what);
            let burns =
                |device: &Device| work(GruConfig::new(shape[2], shape[3], true).init(device), what);
            let ours: &dyn Fn(&Device) -> Work = &ours;
            for (layer, layer_on) in [("ours", ours), ("burn", &burns)] {
                if layer == "burn" && shape[1] > BURNS_LONGEST {
                    continue;
                }
                let mut first = None;
                for latency in LATENCIES {
                    let delay = Duration::from_millis(latency);
                    let cost = measure(address, delay, &mut events, shape, layer_on);
                    let at_once: f64 = *first.get_or_insert(cost.milliseconds);
                    let trips = match latency {
                        10 => format!("{:.1}", (cost.milliseconds - at_once) / 20.0),
                        _ => String::new(),
                    };
                    println!(
                        "{:17} {:9} {layer:7} {latency:4} ms {:11.1} {:10.1} {:9.1} {:8.2}   {trips:>8}",
                        format!("{shape:?}"),
                        format!("{what:?}"),
                        cost.requests,
                        cost.there,
                        cost.back,
                        cost.milliseconds,
                    );
                }
            }
        }
    }
}

/// Starts a server on a thread of this process, with its telemetry.
fn serve() -> (SocketAddr, TelemetrySubscription) {
    let (probe, events) = TelemetryProbe::channel(1 << 20);
    let mut operations = CustomOpRegistry::<Flex>::new();
    gru_op::remote::register(&mut operations);
    let server = RemoteServer::new([Device::flex()])
        .with_custom_ops(operations)
        .with_telemetry(probe);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port exists");
    let address = listener.local_addr().expect("the listener is bound");
    thread::spawn(move || server.serve(WebSocketTransport::from_listener(listener)));
    (address, events)
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// Forward and backward, and one value of the gradient of x is read.
    Sequence,
    /// Forward, backward and Adam, and the loss is read.
    Step,
}

/// Repeated work on an input.
type Work = Box<dyn FnMut(&Tensor<3>)>;

trait Layer: Module + 'static {
    fn run(&self, x: Tensor<3>) -> Tensor<3>;
}

impl Layer for GruBlock {
    fn run(&self, x: Tensor<3>) -> Tensor<3> {
        self.forward(x, None).0
    }
}

impl Layer for Gru {
    fn run(&self, x: Tensor<3>) -> Tensor<3> {
        self.forward(x, None)
    }
}

fn work<L: Layer>(layer: L, what: What) -> Work {
    match what {
        What::Sequence => Box::new(move |x| {
            let x = x.clone().require_grad();
            let gradients = layer.run(x.clone()).square().mean().backward();
            let d_x = x.grad(&gradients).expect("x is tracked");
            d_x.abs().max().into_scalar::<f32>();
        }),
        What::Step => {
            let mut adam: ModuleOptimizer = AdamConfig::new().init();
            let mut layer = Some(layer);
            Box::new(move |x| {
                let learnt = layer.take().expect("every step puts the layer back");
                let loss = learnt.run(x.clone()).square().mean();
                let gradients = GradientsParams::from_grads(loss.backward(), &learnt);
                layer = Some(adam.step(1e-3, learnt, gradients));
                loss.into_scalar::<f32>();
            })
        }
    }
}

struct Cost {
    requests: f64,
    /// Sent and received, in kB.
    there: f64,
    back: f64,
    milliseconds: f64,
}

fn measure(
    server: SocketAddr,
    delay: Duration,
    events: &mut TelemetrySubscription,
    [n, t, i, _]: [usize; 4],
    layer_on: &dyn Fn(&Device) -> Work,
) -> Cost {
    let proxy = Proxy::start(server, delay).expect("a free port exists");
    let host = RemoteHost::websocket(&format!("ws://{}", proxy.address()));
    let device = Device::remote_options(&host)
        .init()
        .expect("the server accepts connections");
    let device = device.autodiff();
    let x = Tensor::<3>::random([n, t, i], Distribution::Default, &device);
    let mut work = layer_on(&device);
    for _ in 0..WARM_UP {
        work(&x);
    }
    thread::sleep(SETTLE + delay);
    count(events);
    let before = [proxy.bytes_sent(), proxy.bytes_received()];
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        work(&x);
        times.push(start.elapsed());
    }
    thread::sleep(SETTLE + delay);
    let kilobytes = |after: u64, before: u64| (after - before) as f64 / 1e3 / RUNS as f64;
    times.sort_unstable();
    Cost {
        requests: count(events) as f64 / RUNS as f64,
        there: kilobytes(proxy.bytes_sent(), before[0]),
        back: kilobytes(proxy.bytes_received(), before[1]),
        milliseconds: times[RUNS / 2].as_secs_f64() * 1e3,
    }
}

/// Requests since the previous count.
fn count(events: &mut TelemetrySubscription) -> usize {
    let mut seen: Vec<Arc<TelemetryEvent>> = Vec::new();
    events.drain_into(&mut seen);
    let is_request = |event: &&Arc<TelemetryEvent>| {
        matches!(
            ***event,
            TelemetryEvent::Op { .. }
                | TelemetryEvent::GraphExecuted { .. }
                | TelemetryEvent::Read { .. }
                | TelemetryEvent::Sync { .. }
        )
    };
    seen.iter().filter(is_request).count()
}
