//! The places where a credential may be, looked at in the order of the AWS command line.

use std::sync::Arc;

use haul_core::error::{Error, ErrorKind, Result};

use super::profile::{Profiles, Section};
use super::{Asked, Credential, Environment, Named, Profile};

/// A credential and, for people, where it was.
pub(super) struct Found {
    pub(super) credential: Arc<Credential>,
    pub(super) place: String,
}

/// The first credential there is. A place that is set up but fails is an error; a place that is not set up is passed by.
/// If there is none the error, of kind `Denied`, tells every place that was looked at.
pub(super) fn find(asked: &Asked, profile: &Profile, _region: Option<&str>) -> Result<Found> {
    let mut looked = Vec::new();
    if profile.named != Named::Flag {
        if let Some(found) = variables(&asked.environment)? {
            return Ok(found);
        }
        looked.push("the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_string());
    }
    let profiles = Profiles::read(&asked.environment)?;
    for (file, section) in
        [(&profiles.credentials, profiles.in_credentials(&profile.name)), (&profiles.config, profiles.in_config(&profile.name))]
    {
        if let Some(credential) = section.map(|section| keys(section, &profile.name)).transpose()?.flatten() {
            let place = format!("profile {} in {}", profile.name, file.path.display());
            return Ok(Found { credential: Arc::new(credential), place });
        }
        let why = match (&file.missing, section) {
            (Some(words), _) => words.clone(),
            (None, None) => format!("no profile {}", profile.name),
            (None, Some(_)) => format!("no keys in profile {}", profile.name),
        };
        looked.push(format!("{} ({why})", file.path.display()));
    }
    Err(none(&looked))
}

fn variables(environment: &Environment) -> Result<Option<Found>> {
    let id = environment.get("AWS_ACCESS_KEY_ID").or_else(|| environment.get("AWS_ACCESS_KEY"));
    let secret = environment.get("AWS_SECRET_ACCESS_KEY").or_else(|| environment.get("AWS_SECRET_KEY"));
    let (id, secret) = match (id, secret) {
        (Some(id), Some(secret)) => (id, secret),
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(half("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not")),
        (None, Some(_)) => return Err(half("AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not")),
    };
    let token = environment.first(&["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"]).map(|(_, token)| token);
    let credential = Arc::new(Credential::new(id, secret, token, None));
    Ok(Some(Found { credential, place: "the environment".to_string() }))
}

/// The keys that stand in a profile itself.
fn keys(section: &Section, profile: &str) -> Result<Option<Credential>> {
    match (section.get("aws_access_key_id"), section.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            let token = section.get("aws_session_token").or_else(|| section.get("aws_security_token"));
            Ok(Some(Credential::new(id, secret, token.map(str::to_string), None)))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(half(&format!("profile {profile} has aws_access_key_id and no aws_secret_access_key"))),
        (None, Some(_)) => Err(half(&format!("profile {profile} has aws_secret_access_key and no aws_access_key_id"))),
    }
}

fn half(words: &str) -> Error {
    Error::new(ErrorKind::Denied, "find credentials").because(words)
}

fn none(looked: &[String]) -> Error {
    let words = format!("there are none; looked, in this order, at {}", looked.join(", "));
    let hint = "run `aws configure`, name a profile with --profile, or read a public bucket with --no-sign-request";
    Error::new(ErrorKind::Denied, "find credentials").because(words).hint(hint)
}
