//! A model as a file: burnpack with the sizes and the characters beside the parameters.

use std::path::Path;

use burn::config::Config;
use burn::store::burn_pack::{AtomicFile, Error as PackError, Reader};
use burn::store::{BurnpackStore, ModuleSnapshot};

use crate::data::Vocabulary;
use crate::error::Error;
use crate::model::{CharGru, CharGruConfig};

const SIZES: &str = "char-gru.config";
const CHARACTERS: &str = "char-gru.vocabulary";

/// Fail before hours of training rather than after: is there a place to write `path`?
pub fn check_writable(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(write_error(path, "it is a directory"));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(write_error(path, "there is no such folder"));
    }
    // The scratch file is removed again when it is dropped.
    AtomicFile::create(path).map_err(|reason| write_error(path, reason))?;
    Ok(())
}

/// Write the model beside `path`, then rename: `path` holds the old file or the new one.
pub fn save(
    model: &CharGru,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    path: &Path,
) -> Result<(), Error> {
    let mut store = BurnpackStore::from_file(path)
        .auto_extension(false)
        .overwrite(true)
        .metadata(SIZES, sizes.to_string())
        .metadata(CHARACTERS, vocabulary.characters());
    model
        .save_into(&mut store)
        .map_err(|reason| write_error(path, reason))
}

/// Replace the parameters of `model` by those in `path`, which must fit it.
pub fn load(
    mut model: CharGru,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    path: &Path,
) -> Result<CharGru, Error> {
    let refuse = |reason: String| Error::Load {
        path: path.to_path_buf(),
        reason,
    };
    let unreadable = |error: PackError| match error {
        PackError::IoError(reason) | PackError::ValidationError(reason) => refuse(reason),
        other => refuse(format!("it is no model file ({other})")),
    };
    let reader = Reader::from_file_exact(path).map_err(unreadable)?;
    let saved = reader.metadata();
    let saved_sizes = saved
        .get(SIZES)
        .and_then(|json| CharGruConfig::load_binary(json.as_bytes()).ok())
        .ok_or_else(|| refuse("it was not saved by this program".to_string()))?;
    // Dropout has no parameters: it may differ.
    let alike = CharGruConfig {
        dropout: sizes.dropout,
        ..saved_sizes.clone()
    };
    if alike != *sizes {
        let CharGruConfig {
            embed,
            hidden,
            layers,
            vocabulary,
            ..
        } = saved_sizes;
        return Err(refuse(format!(
            "it needs --embed {embed} --hidden {hidden} --layers {layers} and a text of \
             {vocabulary} distinct characters"
        )));
    }
    if saved.get(CHARACTERS) != Some(&vocabulary.characters()) {
        return Err(refuse("its text has other characters".to_string()));
    }

    let mut store = BurnpackStore::from_file(path).auto_extension(false);
    model.load_from(&mut store).map_err(unreadable)?;
    Ok(model)
}

fn write_error(path: &Path, reason: impl ToString) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::module::Module;
    use burn::tensor::Device;
    use std::fs;

    #[test]
    fn a_model_comes_back_or_is_refused() {
        let folder = std::env::temp_dir().join(format!("char-gru-save-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("model");
        let device = Device::flex();
        let vocabulary = Vocabulary::of("abc");
        let sizes = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let model = sizes.init(&device);
        save(&model, &sizes, &vocabulary, &path).unwrap();
        save(&model, &sizes, &vocabulary, &path).unwrap(); // replaces

        let loaded = load(sizes.init(&device), &sizes, &vocabulary, &path).unwrap();
        let parameters = |model: CharGru| model.into_record().into_bytes().unwrap();
        assert_eq!(parameters(loaded)[..], parameters(model)[..]);

        let wider = CharGruConfig::new(3, 2, 5, 1, 0.0);
        let error = load(wider.init(&device), &wider, &vocabulary, &path).unwrap_err();
        assert!(error.to_string().contains("--hidden 4"), "{error}");
        let other = Vocabulary::of("abd");
        assert!(load(sizes.init(&device), &sizes, &other, &path).is_err());

        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a file is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_written_is_noticed() {
        let folder = std::env::temp_dir();
        assert!(check_writable(&folder).is_err());
        assert!(check_writable(&folder.join("no such folder").join("model")).is_err());
    }
}
