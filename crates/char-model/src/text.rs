//! Reads texts from files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Files, and all `.txt` files in folders, sorted by name, as one text. A missing line end between two files is added.
pub fn read(paths: &[PathBuf]) -> Result<String, Error> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, true, &mut files)?;
    }
    if files.is_empty() {
        return Err(Error::NoFiles);
    }
    let mut text = String::new();
    for path in files {
        let bytes = fs::read(&path).map_err(|source| Error::ReadText {
            path: path.clone(),
            source,
        })?;
        let part = String::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
            path,
            offset: error.utf8_error().valid_up_to(),
        })?;
        let part = clean(&part);
        if !(text.is_empty() || text.ends_with('\n') || part.is_empty()) {
            text.push('\n');
        }
        text.push_str(&part);
    }
    Ok(text)
}

/// The text without a byte-order mark, and with `\n` instead of `\r\n`.
pub fn clean(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.replace("\r\n", "\n")
}

/// A named file, or the `.txt` files of a folder. Links in a folder are followed to files only, because links to folders
/// may form a circle.
fn collect(path: &Path, named: bool, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::ReadText {
        path: path.to_path_buf(),
        source,
    };
    if !named && path.is_symlink() && !path.is_file() {
        return Ok(());
    }
    let kind = fs::metadata(path).map_err(failed)?;
    if kind.is_dir() {
        let entries = fs::read_dir(path).map_err(failed)?;
        let entries: Result<Vec<PathBuf>, _> = entries.map(|e| e.map(|e| e.path())).collect();
        let mut entries = entries.map_err(failed)?;
        entries.sort();
        return entries.iter().try_for_each(|e| collect(e, false, files));
    }
    if named || path.extension().is_some_and(|e| e == "txt") {
        files.push(path.to_path_buf());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_one_text() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("b.txt"), "\u{feff}two\r\n").unwrap();
        fs::write(folder.join("a.txt"), "one").unwrap();
        fs::write(folder.join("sub").join("c.txt"), "").unwrap();
        fs::write(folder.join("sub").join("d.txt"), "three\r").unwrap();
        fs::write(folder.join("picture.png"), [0xff, 0xd8]).unwrap();
        #[cfg(unix)]
        for (to, link) in [(".", "circle"), ("missing", "gone.txt")] {
            std::os::unix::fs::symlink(to, folder.join(link)).unwrap();
        }
        let text = read(&[folder.into()]).unwrap();
        assert_eq!(text, "one\ntwo\nthree\r");
    }

    #[test]
    fn invalid_texts_are_rejected() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            read(&[path]).unwrap_err().to_string()
        };
        assert!(
            file("latin", b"caf\xe9 au lait").contains("byte 3 is not the start of a character")
        );
        assert!(file("cut", "caf\u{e9}".as_bytes().split_last().unwrap().1).contains("byte 3"));
        let none = read(&[folder.join("missing")]).unwrap_err();
        assert!(none.to_string().contains("missing"));
        fs::create_dir_all(folder.join("bare")).unwrap();
        assert!(read(&[folder.join("bare")]).is_err());
    }
}
