//! The text of a spec: JSON in which names that are not UTF-8 keep their bytes, escaped as [`show`] does.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Input, TransferSpec, VERSION};
use crate::entry::{MetaMask, show, unshown};
use crate::error::{Error, ErrorKind, Result};
use crate::place::Location;

impl TransferSpec<Location> {
    /// One line of JSON. Local paths are made absolute below `directory`, so that any process of this machine can use it.
    pub fn to_text(&self, directory: &Path) -> String {
        let mut spec = self.clone().map(|place| Ok::<_, ()>(show(&absolute(&place, directory)))).expect("no address fails");
        for input in spec.selection.inputs() {
            if let Input::File(path) = input {
                *path = directory.join(&*path);
            }
        }
        serde_json::to_string(&spec).expect("numbers and strings under string keys are always JSON")
    }

    /// Reads what [`TransferSpec::to_text`] wrote; `parse` reads an address.
    ///
    /// # Errors
    /// `Usage` for text of another form or a later version, and what `parse` refuses.
    pub fn from_text(text: &str, parse: impl Fn(&[u8]) -> Result<Location>) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let refuse = |why: String| Error::new(ErrorKind::Usage, "read the transfer spec").because(why);
        let Version { version } = serde_json::from_str(text).map_err(|e| refuse(e.to_string()))?;
        if version != VERSION {
            let e = refuse(format!("it has version {version}, this program reads version {VERSION}"));
            return Err(e.hint("use the program that wrote it"));
        }
        let spec: TransferSpec<String> = serde_json::from_str(text).map_err(|e| refuse(e.to_string()))?;
        if spec.sources.is_empty() {
            return Err(refuse("it has no sources".into()));
        }
        spec.map(|place| parse(&unshown(&place)))
    }
}

impl<A> TransferSpec<A> {
    fn map<B, E>(self, mut with: impl FnMut(A) -> Result<B, E>) -> Result<TransferSpec<B>, E> {
        let TransferSpec { version, operation, sources, destination, selection, comparison, .. } = self;
        let TransferSpec { attributes, deletion, safety, limits, performance, access, .. } = self;
        Ok(TransferSpec {
            version,
            operation,
            sources: sources.into_iter().map(&mut with).collect::<Result<_, E>>()?,
            destination: with(destination)?,
            selection,
            comparison,
            attributes,
            deletion,
            safety,
            limits,
            performance,
            access,
        })
    }
}

/// The address in a form that does not depend on the working directory.
fn absolute(place: &Location, directory: &Path) -> Vec<u8> {
    let bytes = place.to_bytes();
    if place.is_remote() || place.scheme == crate::place::Scheme::STDIO || bytes.starts_with(b"/") {
        return bytes;
    }
    let below = bytes.strip_prefix(b"./").unwrap_or(&bytes);
    [directory.as_os_str().as_bytes(), if directory == Path::new("/") { b"" } else { b"/" }, below].concat()
}

/// A module for `serde(with)` of a value that has a text.
macro_rules! shown {
    ($name:ident, $type:ty, $to:expr, $from:expr) => {
        pub(super) mod $name {
            use super::*;

            pub fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                $to(value).serialize(to)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                $from(Deserialize::deserialize(from)?).map_err(de::Error::custom)
            }
        }
    };
}

fn of_path(path: &Path) -> String {
    show(path.as_os_str().as_bytes())
}

fn to_path(text: &str) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&unshown(text)))
}

/// The words of [`MetaMask::words`].
fn to_mask(words: &[String]) -> Result<MetaMask, String> {
    words.iter().try_fold(MetaMask::NONE, |mask, word| match MetaMask::of_word(word) {
        Some(class) => Ok(mask.with(class)),
        None => Err(format!("no attribute is called '{word}'")),
    })
}

type Never = std::convert::Infallible;

shown!(bytes, Vec<u8>, |value: &Vec<u8>| show(value), |text: String| Ok::<_, Never>(unshown(&text)));
shown!(path, PathBuf, |value: &PathBuf| of_path(value), |text: String| Ok::<_, Never>(to_path(&text)));
shown!(some_path, Option<PathBuf>, |value: &Option<PathBuf>| value.as_deref().map(of_path), |text: Option<String>| {
    Ok::<_, Never>(text.as_deref().map(to_path))
});
shown!(paths, Vec<PathBuf>, |value: &Vec<PathBuf>| value.iter().map(|path| of_path(path)).collect::<Vec<_>>(), |all: Vec<String>| {
    Ok::<_, Never>(all.iter().map(|text| to_path(text)).collect())
});
shown!(mask, MetaMask, |value: &MetaMask| value.words(), |words: Vec<String>| to_mask(&words));
