//! Values of the configuration that have a form of their own.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use stria_format::md::uuid_text;

/// The identity of an array, as mdadm writes it or with dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid_text(&self.0))
    }
}

impl FromStr for Uuid {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("{text:?} is no UUID of an array: write it as `stria examine` or `mdadm --detail` show it");
        let digits: Vec<u8> = text.bytes().filter(|byte| !b":-".contains(byte)).collect();
        if digits.len() != 32 {
            return Err(usage());
        }
        let mut uuid = [0; 16];
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
            *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(usage)?;
        }
        Ok(Self(uuid))
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The time that an array waits for drives that it lacks; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(pub Option<Duration>);

impl Default for Patience {
    /// 30 s, as mdadm's timer of last resort.
    fn default() -> Self {
        Self(Some(Duration::from_secs(30)))
    }
}

impl<'de> Deserialize<'de> for Patience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self(None));
        }
        let time = humantime::parse_duration(&text);
        time.map(|time| Self(Some(time)))
            .map_err(|error| de::Error::custom(format!("{error}: write \"30s\", \"5m\" or \"never\"")))
    }
}

/// The block device that an array becomes, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Block {
    /// No.
    #[default]
    None,
    /// The device is `/dev/ublkbN` with any free number.
    Any,
    /// The device is `/dev/ublkbN` with this number.
    Number(u32),
}

impl Block {
    /// The option of `serve --ublk`.
    pub fn option(self) -> Option<Option<u32>> {
        match self {
            Self::None => None,
            Self::Any => Some(None),
            Self::Number(number) => Some(Some(number)),
        }
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Block;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or the N of /dev/ublkbN")
            }
            fn visit_bool<E: de::Error>(self, wanted: bool) -> Result<Block, E> {
                Ok(if wanted { Block::Any } else { Block::None })
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Block, E> {
                let range = || de::Error::invalid_value(de::Unexpected::Signed(number), &self);
                u32::try_from(number).map(Block::Number).map_err(|_| range())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
