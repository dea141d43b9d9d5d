//! Runs that learn, stop, and resume.

use super::*;
use crate::config::Cli;
use burn::tensor::Tensor;
use clap::Parser;

fn args(folder: &Path, more: &[&str]) -> TrainArgs {
    let out = folder.to_str().unwrap();
    let mut all: Vec<&str> = "char-gru --embed 8 --hidden 16 --dropout 0.2 --batch 4 --seq 16 \
                              --epochs 6 --lr 2e-2 --out"
        .split_whitespace()
        .collect();
    all.push(out);
    all.extend(more);
    Cli::parse_from(all).train
}

/// Runs on this many devices. Returns the log without times.
fn run(
    folder: &Path,
    count: usize,
    more: &[&str],
    stop: &AtomicBool,
) -> (String, Result<(), Error>) {
    let args = args(folder, more);
    let text = "a rose is a rose. ".repeat(60);
    let corpus = Corpus::new(&text, 0.1, 16).unwrap();
    let sizes = CharGruConfig::new(corpus.vocabulary.len(), 8, 16, 1, args.dropout);
    let reference = Reference::new(&corpus);
    let files = Files::create(folder).unwrap();
    let devices = vec![Device::flex(); count];
    let trained = train(&args, &sizes, &corpus, &reference, &files, &devices, stop);
    // The log without the speed of each step.
    let log = fs::read_to_string(files.log).unwrap();
    let lines = log.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line.to_string()
    });
    (lines.collect::<Vec<_>>().join("\n"), trained.map(|_| ()))
}

#[test]
fn an_edited_text_is_another_run() {
    let args = args(Path::new("run"), &[]);
    let sizes = CharGruConfig::new(2, 8, 16, 1, 0.0);
    let [one, other] = ["ab", "ba"].map(|text| {
        let corpus = Corpus::new(&text.repeat(50), 0.1, 16).unwrap();
        identity(&args, &sizes, &corpus)
    });
    assert_ne!(one, other);
}

/// One test, because two runs at once would share one random generator.
#[test]
fn training_learns_repeats_itself_and_resumes_to_the_same_losses() {
    let own = "train::tests::training_learns_repeats_itself_and_resumes_to_the_same_losses";
    if crate::runs_on_flex(own) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder_of = |name: &str| folder.path().join(name);
    let go = AtomicBool::new(false);
    let start = folder_of("start.bpk");
    let start = start.to_str().unwrap();

    let (whole, result) = run(&folder_of("a"), 1, &["--save-init", start], &go);
    result.unwrap();
    let last: serde_json::Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
    assert!(last["validation"].as_f64().unwrap() < 0.5, "{last}");
    assert!(folder_of("a").join("loss.svg").exists());

    let (again, _) = run(&folder_of("b"), 1, &["--init", start], &go);
    assert_eq!(again, whole);

    // Stopped after every few steps, also within epochs, and resumed each time.
    let broken = folder_of("c");
    let mut resume: Vec<&str> = vec!["--init", start];
    let mut breaks = 0;
    let resumed = loop {
        let stop = AtomicBool::new(breaks < 5); // after one step
        let (log, result) = run(&broken, 1, &resume, &stop);
        resume = vec!["--resume"];
        match result {
            Ok(()) => break log,
            Err(Error::Stopped { .. }) => breaks += 1,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(breaks, 5);
    assert_eq!(resumed, whole);

    let (_, other) = run(&broken, 1, &["--resume", "--seed", "8"], &go);
    assert!(other.unwrap_err().to_string().contains("other arguments"));
}

/// A file that was edited, or written by another version.
#[test]
fn a_checkpoint_of_another_position_or_shape_is_rejected() {
    if crate::runs_on_flex("train::tests::a_checkpoint_of_another_position_or_shape_is_rejected") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = args(folder.path(), &["--resume"]);
    let corpus = Corpus::new(&"a rose is a rose. ".repeat(60), 0.1, 16).unwrap();
    let sizes = CharGruConfig::new(corpus.vocabulary.len(), 8, 16, 1, args.dropout);
    let reference = Reference::new(&corpus);
    let files = Files::create(folder.path()).unwrap();
    let device = Device::flex();
    let stop = AtomicBool::new(true);
    let resume = |rows: usize, progress: Progress| {
        let checkpoint = Checkpoint {
            model: sizes.init(&device.clone().autodiff()),
            optimizer: adam(),
            state: Some(Tensor::zeros([1, rows, 16], &device)),
            progress,
        };
        let (identity, path) = (identity(&args, &sizes, &corpus), &files.checkpoint);
        checkpoint::save(&checkpoint, &sizes, &corpus.vocabulary, &identity, path).unwrap();
        let on = std::slice::from_ref(&device);
        let result = train(&args, &sizes, &corpus, &reference, &files, on, &stop);
        result.unwrap_err().to_string()
    };
    let at = |step, window| Progress {
        step,
        window,
        ..Progress::default()
    };
    let error = resume(4, at(1, 1));
    assert!(error.contains("stopped at step 2"), "{error}");
    let error = resume(3, at(1, 1));
    assert!(
        error.contains("expected a state of shape [1, 4, 16], got [1, 3, 16]"),
        "{error}"
    );
    for (step, window) in [(2, 1), (1000, 1000), (usize::MAX, 0)] {
        let error = resume(4, at(step, window));
        let reason = format!("step {step} is not window {window} of epoch 0");
        assert!(error.contains(&reason), "{error}");
    }
}
