//! The file of a model: a burnpack file with its sizes and characters.

use std::fs;
use std::path::Path;

use burn::config::Config;
use burn::store::burn_pack::{Error as PackError, Reader};
use burn::store::{BurnpackStore, ModuleSnapshot};
use burn::tensor::{Bytes, Device};

use crate::error::Error;
use crate::model::{CharGru, CharGruConfig};
use crate::vocabulary::Vocabulary;

/// Names of the metadata in a file. A checkpoint uses the same names.
pub const SIZES: &str = "char-gru.config";
pub const CHARACTERS: &str = "char-gru.vocabulary";

/// Writes a model to a temporary file next to the target and renames it. Even if the process is killed,
/// the old or the new file remains.
pub fn save(
    model: &CharGru,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    path: &Path,
) -> Result<(), Error> {
    let store = BurnpackStore::from_file(path)
        .auto_extension(false)
        .overwrite(true);
    let stored = model.save_into(&mut described(store, sizes, vocabulary));
    stored.map_err(|reason| Error::write(path, reason))
}

/// The file of a model in memory. `name` is for errors.
pub fn to_bytes(
    model: &CharGru,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    name: &Path,
) -> Result<Bytes, Error> {
    let failed = |reason| Error::write(name, reason);
    let mut store = described(BurnpackStore::from_bytes(None), sizes, vocabulary);
    model.save_into(&mut store).map_err(failed)?;
    store.get_bytes().map_err(failed)
}

fn described(
    store: BurnpackStore,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
) -> BurnpackStore {
    store
        .metadata(SIZES, sizes.to_string())
        .metadata(CHARACTERS, vocabulary.characters())
}

/// A model, its sizes and its characters.
pub type Loaded = (CharGru, CharGruConfig, Vocabulary);

/// Reads a model.
pub fn load(path: &Path, device: &Device) -> Result<Loaded, Error> {
    let reader = Reader::from_file_exact(path).map_err(|e| unreadable(path, e))?;
    let held = fs::metadata(path).map_err(|e| Error::load(path, e))?.len();
    let (sizes, vocabulary) = description(&reader, held, path)?;
    let store = BurnpackStore::from_file(path).auto_extension(false);
    let model = parameters(store, &sizes, device, path)?;
    Ok((model, sizes, vocabulary))
}

/// Reads a model in memory. `name` is for errors.
pub fn from_bytes(bytes: Vec<u8>, name: &Path, device: &Device) -> Result<Loaded, Error> {
    let held = bytes.len() as u64;
    let bytes = Bytes::from_bytes_vec(bytes);
    let reader = Reader::from_bytes(bytes.clone()).map_err(|e| unreadable(name, e))?;
    let (sizes, vocabulary) = description(&reader, held, name)?;
    let store = BurnpackStore::from_bytes(Some(bytes));
    let model = parameters(store, &sizes, device, name)?;
    Ok((model, sizes, vocabulary))
}

/// Reads a model that must have these sizes and characters, as initial parameters.
pub fn load_like(
    path: &Path,
    sizes: &CharGruConfig,
    vocabulary: &Vocabulary,
    device: &Device,
) -> Result<CharGru, Error> {
    let reader = Reader::from_file_exact(path).map_err(|e| unreadable(path, e))?;
    let held = fs::metadata(path).map_err(|e| Error::load(path, e))?.len();
    let (saved, characters) = description(&reader, held, path)?;
    // Dropout has no parameters, so it may differ.
    let alike = CharGruConfig {
        dropout: sizes.dropout,
        ..saved.clone()
    };
    if alike != *sizes {
        let reason = format!(
            "its model has embed {}, hidden {}, layers {}, for {} characters",
            saved.embed, saved.hidden, saved.layers, saved.vocabulary
        );
        return Err(Error::load(path, reason));
    }
    if characters != *vocabulary {
        return Err(Error::load(
            path,
            "it was trained on a text with other characters",
        ));
    }
    let store = BurnpackStore::from_file(path).auto_extension(false);
    parameters(store, sizes, device, path)
}

/// A model of these sizes with the parameters of a store.
fn parameters(
    mut store: BurnpackStore,
    sizes: &CharGruConfig,
    device: &Device,
    name: &Path,
) -> Result<CharGru, Error> {
    let mut model = sizes.init(device);
    let loaded = model.load_from(&mut store);
    loaded.map_err(|e| unreadable(name, e))?;
    Ok(model)
}

/// The description of the model in a file of `held` bytes, if it is possible.
fn description(
    reader: &Reader,
    held: u64,
    path: &Path,
) -> Result<(CharGruConfig, Vocabulary), Error> {
    let foreign = || Error::load(path, "it was not saved by char-gru");
    let saved = reader.metadata();
    let sizes = saved
        .get(SIZES)
        .and_then(|json| CharGruConfig::load_binary(json.as_bytes()).ok())
        .ok_or_else(foreign)?;
    let characters = saved.get(CHARACTERS).ok_or_else(foreign)?;
    let vocabulary = Vocabulary::new(characters.chars().collect()).map_err(|_| foreign())?;
    if vocabulary.len() != sizes.vocabulary || !is_possible(&sizes, held) {
        return Err(foreign());
    }
    Ok((sizes, vocabulary))
}

/// Whether models of these sizes exist and fit in a file of this length. A small file may claim a model
/// that no memory can hold.
fn is_possible(sizes: &CharGruConfig, bytes: u64) -> bool {
    let counts = [sizes.vocabulary, sizes.embed, sizes.hidden, sizes.layers];
    let [v, e, h, l] = counts.map(|count| count as f64);
    // Counts only the weights, with at least one byte each.
    let weights = v * e + 3.0 * h * (e + (2.0 * l - 1.0) * h) + h * v;
    counts.iter().all(|&count| count > 0)
        && weights <= bytes as f64
        && (0.0..1.0).contains(&sizes.dropout)
}

/// Burn's error for a file.
pub fn unreadable(path: &Path, error: PackError) -> Error {
    match error {
        PackError::IoError(reason) | PackError::ValidationError(reason) => {
            Error::load(path, reason)
        }
        other => Error::load(path, format!("expected a model file ({other})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Module;

    fn vocabulary(characters: &str) -> Vocabulary {
        Vocabulary::new(characters.chars().collect()).unwrap()
    }

    #[test]
    fn models_load_or_are_rejected() {
        let _alone = crate::drawing();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let device = Device::flex();
        let abc = vocabulary("abc");
        let sizes = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let model = sizes.init(&device);
        save(&model, &sizes, &abc, &path).unwrap();
        save(&model, &sizes, &abc, &path).unwrap(); // replaces
        let in_memory = to_bytes(&model, &sizes, &abc, &path).unwrap();
        assert_eq!(in_memory[..], fs::read(&path).unwrap());

        let parameters = |model: CharGru| model.into_record().into_bytes().unwrap();
        for (loaded, read, characters) in [
            load(&path, &device).unwrap(),
            from_bytes(in_memory.to_vec(), &path, &device).unwrap(),
        ] {
            assert_eq!((read, characters), (sizes.clone(), abc.clone()));
            assert_eq!(parameters(loaded)[..], parameters(model.clone())[..]);
        }

        let wider = CharGruConfig::new(3, 2, 5, 1, 0.0);
        let error = load_like(&path, &wider, &abc, &device).unwrap_err();
        assert!(error.to_string().contains("hidden 4"), "{error}");
        assert!(load_like(&path, &sizes, &vocabulary("abd"), &device).is_err());
        assert!(load_like(&path, &sizes, &abc, &device).is_ok());

        let foreign = b"no model at all";
        fs::write(&path, foreign).unwrap();
        assert!(load(&path, &device).is_err());
        assert!(from_bytes(foreign.to_vec(), &path, &device).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a file is left");
    }

    #[test]
    fn impossible_sizes_are_rejected() {
        let _alone = crate::drawing();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let usual = CharGruConfig::new(3, 2, 4, 1, 0.0);
        let claims = [
            CharGruConfig::new(3, 2, 1 << 20, 1, 0.0),
            CharGruConfig::new(3, 2, usize::MAX / 2, 1, 0.0),
            CharGruConfig::new(3, 2, 4, 1 << 40, 0.0),
            CharGruConfig::new(3, 0, 4, 1, 0.0),
            CharGruConfig::new(3, 2, 0, 1, 0.0),
            CharGruConfig::new(3, 2, 4, 0, 0.0),
            CharGruConfig::new(3, 2, 4, 1, 1.0),
            CharGruConfig::new(3, 2, 4, 1, f64::NAN),
        ];
        let abc = vocabulary("abc");
        for sizes in claims {
            let device = Device::flex();
            save(&usual.init(&device), &sizes, &abc, &path).unwrap();
            assert!(load(&path, &device).is_err(), "{sizes}");
            let bytes = fs::read(&path).unwrap();
            assert!(from_bytes(bytes, &path, &device).is_err(), "{sizes}");
        }
    }
}
