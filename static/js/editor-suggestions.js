// Suggestions at a position, from a guide: a JSON Schema, values by path, and expressions.

const MOST = 50;

// --- the schema ------------------------------------------------------------------------------------

function resolved(root, schema) {
  let found = schema;
  for (let hops = 0; found?.$ref?.startsWith("#/") && hops < 20; hops += 1) {
    found = found.$ref.slice(2).split("/").reduce((inner, part) => inner?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  }
  return found && typeof found === "object" ? found : {};
}

const allowed = (schema) => schema?.enum || (schema && "const" in schema ? [schema.const] : null);

// A branch with a different `type` than the entered one does not match.
function matchesScalars(branch, scalars) {
  return Object.entries(branch.properties || {}).every(([name, inner]) => {
    const written = scalars?.[name];
    return !written || !allowed(inner) || allowed(inner).map(String).includes(written);
  });
}

function spread(root, schema, scalars) {
  const own = resolved(root, schema);
  const all = (own.allOf || []).flatMap((candidate) => spread(root, candidate, scalars));
  const some = [...(own.anyOf || []), ...(own.oneOf || [])].map((candidate) => resolved(root, candidate)).filter((candidate) => matchesScalars(candidate, scalars));
  if (own.if && own.then && matchesScalars(resolved(root, own.if), scalars)) all.push(...spread(root, own.then, scalars));
  return [own, ...all, ...some.flatMap((candidate) => spread(root, candidate, scalars))];
}

function inside(schema, name) {
  if (name === "*") return schema.items ? [schema.items] : [];
  if (schema.properties && name in schema.properties) return [schema.properties[name]];
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

function schemasAt(root, path, scalars) {
  let found = spread(root, root, scalars[0]);
  path.forEach((name, depth) => {
    found = found.flatMap((candidate) => inside(candidate, name)).flatMap((candidate) => spread(root, candidate, scalars[depth + 1]));
  });
  return found;
}

// --- suggestions: {text, insert, detail} ------------------------------------------------------------

function typeOf(root, schema) {
  const own = resolved(root, schema);
  const type = Array.isArray(own.type) ? own.type[0] : own.type;
  return type || (own.properties ? "object" : own.items ? "array" : allowed(own) ? "one of" : "");
}

function keyText(name, type, { language, column }) {
  if (language === "json") return `"${name}": `;
  const deeper = `\n${" ".repeat(column + 2)}`;
  return name + ({ object: `:${deeper}`, array: `:${deeper}- ` }[type] || ": ");
}

function keys(root, schemas, place) {
  const found = new Map();
  for (const schema of schemas) {
    for (const [name, inner] of Object.entries(schema.properties || {})) {
      if (place.existingKeys.has(name) || found.has(name)) continue;
      const type = typeOf(root, inner);
      const isRequired = (schema.required || []).includes(name);
      const detail = [isRequired ? "required" : "", resolved(root, inner).description || type].filter(Boolean).join(", ");
      found.set(name, { text: name, insert: keyText(name, type, place), detail, first: isRequired });
    }
  }
  return [...found.values()].sort((a, b) => b.first - a.first);
}

function written(value, { language }) {
  if (typeof value !== "string") return JSON.stringify(value);
  const isPlain = language !== "json" && /^[\w./<+:-][\w ./<>+:=-]*$/.test(value) && !/^(?:true|false|null|[-+.\d][\d.]*)$/i.test(value) && !/:\s|\s$/.test(value);
  return isPlain ? value : JSON.stringify(value);
}

function values(guide, schemas, place) {
  const named = guide.values?.[place.path.filter((name) => name !== "*").join(".")] || [];
  const listed = schemas.flatMap((candidate) => [...(allowed(candidate) || []), ...(candidate.type === "boolean" ? [true, false] : []), ...(candidate.examples || []), ...("default" in candidate ? [candidate.default] : [])]);
  const found = new Map();
  for (const candidate of [...named, ...listed]) {
    const { value, detail } = candidate !== null && typeof candidate === "object" ? candidate : { value: candidate };
    if (value !== undefined && !found.has(value)) found.set(value, { text: String(value), insert: written(value, place), detail: detail || "" });
  }
  return [...found.values()];
}

function matching(found, prefix) {
  const lowerPrefix = prefix.toLowerCase();
  const rank = ({ text }) => (text.toLowerCase().startsWith(lowerPrefix) ? 0 : text.toLowerCase().includes(lowerPrefix) ? 1 : 2);
  const kept = found.filter((candidate) => rank(candidate) < 2 && candidate.text !== prefix);
  return kept.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

export function suggestions(guide, place) {
  if (place.kind === "expression") {
    const found = (guide.expressions || []).map((candidate) => (typeof candidate === "string" ? { value: candidate } : candidate));
    return matching(found.map(({ value, detail }) => ({ text: value, insert: `${value}>`, detail: detail || "" })), place.prefix);
  }
  const root = guide.schema || {};
  const schemas = schemasAt(root, place.path, place.scalars);
  const isItem = place.path.at(-1) === "*";
  const found = place.kind === "key" ? keys(root, schemas, place) : [];
  return matching([...found, ...(place.kind === "value" || isItem ? values(guide, schemas, place) : [])], place.prefix.replace(/^["']/, ""));
}
