use super::*;

/// A text of `n` characters in which each differs from its neighbours.
fn counting(n: usize) -> String {
    ('a'..='z').cycle().take(n).collect()
}

#[test]
fn a_vocabulary_encodes_what_it_has_seen() {
    let vocabulary = Vocabulary::of("banana");
    assert_eq!(vocabulary.characters(), "abn");
    assert_eq!(vocabulary.encode("nab").unwrap(), [2, 0, 1]);
    assert_eq!(vocabulary.character(1), 'b');
}

#[test]
fn unknown_characters_are_named_once_each() {
    let error = Vocabulary::of("banana").encode("bawxw\n").unwrap_err();
    assert!(matches!(&error, Error::UnknownCharacters(c) if c == &['w', 'x', '\n']));
    assert!(error.to_string().contains(r"'w', 'x', '\n'"), "{error}");
}

#[test]
fn the_end_of_the_text_is_kept_for_validation() {
    let corpus = Corpus::new(&counting(100), 0.1, 8).unwrap();
    assert_eq!((corpus.train.len(), corpus.validation.len()), (90, 10));
    assert_eq!(corpus.train[..3], [0, 1, 2]);
    assert_eq!(corpus.validation[0], 90 % 26);
}

#[test]
fn windows_continue_each_other_in_every_stream() {
    let corpus = Corpus::new(&counting(200), 0.1, 8).unwrap();
    let streams = corpus.train_streams(3, 8);
    assert_eq!((streams.count, streams.length), (3, 59));

    for shift in [0, 1, streams.slack(8)] {
        let windows: Vec<Window> = streams.training_windows(8, shift).collect();
        assert_eq!(windows.len(), streams.full_windows(8));
        for stream in 0..3 {
            let read: Vec<i32> = windows
                .iter()
                .flat_map(|w| &w.inputs[stream * 8..(stream + 1) * 8])
                .copied()
                .collect();
            let start = stream * 59 + shift;
            assert_eq!(read, corpus.train[start..start + read.len()]);
        }
    }
}

#[test]
fn targets_are_the_successors_of_the_inputs() {
    let corpus = Corpus::new(&counting(200), 0.1, 8).unwrap();
    for window in corpus.train_streams(3, 8).training_windows(8, 0) {
        for (input, target) in window.inputs.iter().zip(&window.targets) {
            assert_eq!((input + 1) % 26, *target);
        }
    }
}

#[test]
fn validation_covers_all_but_the_first_token() {
    let corpus = Corpus::new(&counting(200), 0.1, 8).unwrap();
    let streams = corpus.validation_streams(16);
    let windows: Vec<Window> = streams.all_windows(8).collect();
    let targets: Vec<i32> = windows.iter().flat_map(|w| w.targets.clone()).collect();
    assert_eq!(streams.count, 1);
    assert_eq!(targets, corpus.validation[1..]);
    assert_eq!(
        windows.iter().map(Window::len).collect::<Vec<_>>(),
        [8, 8, 3]
    );
}

#[test]
fn a_long_validation_part_is_read_in_parallel() {
    let corpus = Corpus::new(&counting(50_000), 0.1, 8).unwrap();
    assert_eq!(corpus.validation_streams(16).count(), 4);
    assert_eq!(corpus.validation_streams(2).count(), 2);
}

#[test]
fn a_short_text_gives_fewer_streams() {
    let corpus = Corpus::new(&counting(100), 0.1, 20).unwrap();
    let streams = corpus.train_streams(32, 20);
    assert_eq!(streams.count(), 4);
    assert_eq!(streams.training_windows(20, streams.slack(20)).count(), 1);
}

#[test]
fn the_shortest_text_named_is_the_shortest_accepted() {
    for (validation, seq) in [(0.1, 64), (0.5, 1), (0.01, 7), (0.9, 3)] {
        let Err(Error::TooShort { found, needed, .. }) = Corpus::new(&counting(3), validation, seq)
        else {
            // Three characters are enough for windows of one.
            assert_eq!(seq, 1);
            continue;
        };
        assert_eq!(found, 3);
        assert!(Corpus::new(&counting(needed - 1), validation, seq).is_err());
        let corpus = Corpus::new(&counting(needed), validation, seq).unwrap();
        assert!(corpus.train_streams(5, seq).full_windows(seq) >= 1);
        assert!(corpus.validation.len() >= 2);
    }
}

#[test]
fn hopeless_texts_are_refused() {
    let corpus = |text: &str| Corpus::new(text, 0.1, 4).unwrap_err();
    assert!(matches!(corpus(""), Error::EmptyText));
    assert!(matches!(
        corpus(&"x".repeat(999)),
        Error::SingleCharacter('x')
    ));
    assert!(matches!(corpus("tiny"), Error::TooShort { found: 4, .. }));
}

#[test]
fn files_are_read_or_refused_in_one_line() {
    let folder = std::env::temp_dir().join(format!("char-gru-data-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };

    let windows = write("windows.txt", b"\xef\xbb\xbfone\r\ntwo\r\n");
    assert_eq!(read_text(&windows).unwrap(), "one\ntwo\n");

    let latin1 = write("latin1.txt", b"caf\xe9 au lait");
    let error = read_text(&latin1).unwrap_err();
    assert!(matches!(error, Error::NotUtf8 { offset: 3, .. }));

    for path in [folder.clone(), folder.join("absent.txt"), latin1] {
        let error = read_text(&path).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(error.to_string().lines().count(), 1);
    }
    fs::remove_dir_all(&folder).unwrap();
}
