//! Devices that forward operations: server requirements, rejected calls, number of requests. The other
//! suites check results on the backend `remote`.

use super::{
    backends::TestBackend,
    operator::{self, Way},
    runs::{self, values},
    server::{Kind, Server},
};
use burn::{
    backend::{
        Dispatch, DispatchDevice,
        ir::{BaseOperationIr, CustomOpIr, OperationIr, ScalarIr, TensorIr},
    },
    remote::CustomOpClient,
    tensor::{DType, Device, Shape, Tensor},
};
use gru_op::{
    GruBlockConfig, GruSpec, GruWeights,
    backend::{GruBackend, GruCall, GruSaved, Inputs as CallInputs, Sequence, Weights},
    gru_sequence,
};
use gru_testkit::{case::Case, close::Tolerance, panics::panic_text};
use libtest_mimic::Trial;

type Test = fn() -> Result<(), String>;

const TESTS: &[(&str, Test)] = &[
    ("server-without-operator", server_without_operator),
    ("server-of-another-release", server_of_another_release),
    ("malformed-calls", malformed_calls),
    ("other-backend", on_other_backend),
    ("operations-of-a-sequence", operations_of_a_sequence),
];

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let trial =
        |&(name, test): &(&str, Test)| Trial::test(format!("remote/{name}"), move || Ok(test()?));
    // A GPU server, if this machine has a GPU.
    let on_wgpu = |backend: &&TestBackend| backend.name.starts_with("wgpu");
    let gpu = backends.iter().filter(on_wgpu).map(|backend| {
        let tolerance = backend.tolerance(Tolerance::F32);
        let id = format!("remote/{}", backend.name);
        backend.trial(id, move |_| on(Kind::Wgpu, DType::F32, tolerance))
    });
    TESTS.iter().map(trial).chain(gpu).collect()
}

fn start(kind: Kind) -> Result<Server, String> {
    Server::start(kind).map_err(|reason| reason.to_string())
}

/// Runs forward and reads the result.
fn forward(device: &Device) -> Vec<f64> {
    let x = Tensor::<3>::ones([2, 3, 4], device);
    let gru = GruBlockConfig::new(4, 5).init(device);
    values(gru.forward(x, None).0)
}

fn expect(text: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|&&part| !text.contains(part)) {
        Some(part) => Err(format!("expected {part:?} in {text:?}")),
        None => Ok(()),
    }
}

fn server_without_operator() -> Result<(), String> {
    let server = start(Kind::Bare)?;
    let device = server.device()?;
    let text = panic_text(|| forward(&device))?;
    expect(
        &text,
        &[
            "GruBlock::forward",
            "does not run this operator",
            "gru_op::remote::register",
        ],
    )
}

fn server_of_another_release() -> Result<(), String> {
    let server = start(Kind::Newer)?;
    let device = server.device()?;
    for _ in 0..2 {
        let text = panic_text(|| forward(&device))?;
        expect(
            &text,
            &["GruBlock::forward", "encoding 1000", "same release"],
        )?;
    }
    Ok(())
}

/// Each malformed call ends its own session. An open session continues, and new sessions can be opened.
fn malformed_calls() -> Result<(), String> {
    let server = start(Kind::Flex)?;
    let old = server.device()?;
    let expected = values(Tensor::<3>::ones([2, 3, 4], &old) * 2.0);
    for k in 0..10 {
        // Another credential opens another session.
        let host = server.host().with_credential(format!("{k}"));
        let device = Device::remote_options(&host).init();
        let device = device.map_err(|reason| reason.to_string())?;
        let DispatchDevice::Remote(remote) = device.as_dispatch() else {
            return Err("expected a remote device".into());
        };
        let client = CustomOpClient::new(remote);
        let uninit = || TensorIr::uninit(client.create_empty_handle(), Shape::new([3]), DType::F32);
        let scalars = vec![ScalarIr::UInt(1); k];
        let inputs: Vec<_> = (0..k % 3).map(|_| uninit()).collect();
        let outputs = vec![uninit()];
        let id = ["gru_op::states", "gru_op::gradients"][k % 2];
        let results = client.register(CustomOpIr::with_scalars(id, &inputs, &outputs, scalars));
        drop(results);
        device.sync().expect_err("the session has ended");
    }
    let again = values(Tensor::<3>::ones([2, 3, 4], &old) * 2.0);
    if again == expected && !forward(&old).is_empty() {
        Ok(())
    } else {
        Err("expected the older session to continue".into())
    }
}

fn on_other_backend() -> Result<(), String> {
    on(Kind::Other, DType::F64, Tolerance::F64)
}

/// Another backend on the server, with every option of a call.
fn on(kind: Kind, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    let server = start(kind)?;
    let device = server.device()?;
    for words in ["lengths", "lengths before time reverse lean"] {
        let case = Case::new(words);
        let drawn = case.draw();
        let got = operator::run(&device, dtype, &drawn, Way::of(&case))?;
        got.compare(&drawn.expected(), tolerance)?;
    }
    Ok(())
}

/// Forward is one operation, with two views for the final state. Backward is one operation. Both hold
/// for any T. The test counts the operations in a recording, which contains what a server receives.
fn operations_of_a_sequence() -> Result<(), String> {
    let recorded = |t: usize| -> Result<Vec<String>, String> {
        let device = Device::capture();
        let scope = device.capture_scope(|scope| {
            let x = Tensor::<3>::zeros([2, t, 4], &device);
            let w_ih = Tensor::<2>::zeros([4, 15], &device);
            let w_hh = Tensor::<2>::zeros([5, 15], &device);
            let states = Tensor::<3>::zeros([2, t, 5], &device);
            let gates = Tensor::<3>::zeros([2, t, 20], &device);
            let weights = GruWeights::new(w_ih.clone(), w_hh.clone());
            let spec = GruSpec::default();
            let results = gru_sequence(x.clone(), None, &weights, &spec);
            // The operation that autodiff calls.
            let call = GruCall::<Dispatch>::new(
                CallInputs {
                    sequence: Sequence::new(x.into_dispatch()),
                    weights: Weights::new(Some(w_ih.into_dispatch()), w_hh.into_dispatch()),
                },
                spec,
            );
            let wanted = call.inputs.differentiable().map(|input| input.is_some());
            let saved = GruSaved {
                states: states.clone().into_dispatch(),
                gates: Some(gates.into_dispatch()),
            };
            let d = Dispatch::gru_gradients(call, saved, states.into_dispatch(), wanted);
            drop((results, d));
            scope.complete([], [])
        });
        let graph = scope.map_err(|reason| format!("{reason:?}"))?.graph;
        let names = graph.operations.iter().map(|operation| match operation {
            OperationIr::Custom(op) => op.id.clone(),
            OperationIr::BaseFloat(BaseOperationIr::Zeros(_)) => "zeros".into(),
            OperationIr::BaseFloat(BaseOperationIr::Slice(_)) => "slice".into(),
            OperationIr::BaseFloat(BaseOperationIr::Reshape(_)) => "reshape".into(),
            other => format!("{other:?}"),
        });
        Ok(names.filter(|name| name != "zeros").collect())
    };
    for t in [1, 2, 500] {
        let operations = recorded(t)?;
        // The state after the only step needs no slice.
        let last_state = if t == 1 {
            &["reshape"][..]
        } else {
            &["slice", "reshape"]
        };
        let expected = [&["gru_op::states"], last_state, &["gru_op::gradients"]].concat();
        let expected = expected.into_iter().map(String::from).collect();
        runs::expect(&format!("T {t}"), operations, expected)?;
    }
    Ok(())
}
