//! The published numbers, by their place in the file.

use toml::{Table, Value};

/// `reference/published.toml`.
pub struct Published(Table);

/// A place in the file, such as `nvme_matrix.iops.4k[3]`, holds no number.
#[derive(Debug, thiserror::Error)]
#[error("published.toml holds no number at {0}")]
pub struct Missing(String);

impl Published {
    /// Reads the file that is part of the program.
    ///
    /// # Errors
    /// If it is no TOML.
    pub fn read() -> Result<Self, toml::de::Error> {
        include_str!("../../reference/published.toml").parse().map(Self)
    }

    /// The number at a place: table keys with dots between them, then indices in brackets.
    ///
    /// # Errors
    /// If there is none.
    pub fn number(&self, place: &str) -> Result<f64, Missing> {
        match self.value(place) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Float(number)) => Ok(*number),
            _ => Err(Missing(place.to_owned())),
        }
    }

    /// The numbers of a list.
    ///
    /// # Errors
    /// If it is none.
    pub fn numbers(&self, place: &str) -> Result<Vec<f64>, Missing> {
        let Some(Value::Array(parts)) = self.value(place) else { return Err(Missing(place.to_owned())) };
        (0..parts.len()).map(|index| self.number(&format!("{place}[{index}]"))).collect()
    }

    fn value(&self, place: &str) -> Option<&Value> {
        let path = place.replace('[', ".").replace(']', "");
        let mut parts = path.split('.');
        let mut value = self.0.get(parts.next()?)?;
        for part in parts {
            value = match value {
                Value::Table(table) => table.get(part)?,
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// True if the publication says something in words there.
    pub fn is_text(&self, place: &str) -> bool {
        matches!(self.value(place), Some(Value::String(_)))
    }

    /// The places of all numbers of the file.
    pub fn places(&self) -> Vec<String> {
        fn collect(place: &str, value: &Value, places: &mut Vec<String>) {
            match value {
                Value::Integer(_) | Value::Float(_) => places.push(place.to_owned()),
                Value::Table(table) => table.iter().for_each(|(key, value)| collect(&format!("{place}.{key}"), value, places)),
                Value::Array(list) => {
                    list.iter().enumerate().for_each(|(index, value)| collect(&format!("{place}[{index}]"), value, places));
                }
                Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => {}
            }
        }
        let mut places = Vec::new();
        self.0.iter().for_each(|(key, value)| collect(key, value, &mut places));
        places
    }

    /// The sentences of a publication.
    pub fn sentences(&self, publication: &str) -> Vec<&str> {
        match self.value(&format!("{publication}.text")) {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
