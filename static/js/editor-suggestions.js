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

// A branch that says another type than the one written is not meant.
function fits(branch, scalars) {
  return Object.entries(branch.properties || {}).every(([name, inner]) => {
    const written = scalars?.[name];
    return !written || !allowed(inner) || allowed(inner).map(String).includes(written);
  });
}

function spread(root, schema, scalars) {
  const own = resolved(root, schema);
  const all = (own.allOf || []).flatMap((one) => spread(root, one, scalars));
  const some = [...(own.anyOf || []), ...(own.oneOf || [])].map((one) => resolved(root, one)).filter((one) => fits(one, scalars));
  if (own.if && own.then && fits(resolved(root, own.if), scalars)) all.push(...spread(root, own.then, scalars));
  return [own, ...all, ...some.flatMap((one) => spread(root, one, scalars))];
}

function inside(schema, name) {
  if (name === "*") return schema.items ? [schema.items] : [];
  if (schema.properties && name in schema.properties) return [schema.properties[name]];
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

function schemasAt(root, path, scalars) {
  let found = spread(root, root, scalars[0]);
  path.forEach((name, depth) => {
    found = found.flatMap((one) => inside(one, name)).flatMap((one) => spread(root, one, scalars[depth + 1]));
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
      if (place.have.has(name) || found.has(name)) continue;
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
  const told = schemas.flatMap((one) => [...(allowed(one) || []), ...(one.type === "boolean" ? [true, false] : []), ...(one.examples || []), ...("default" in one ? [one.default] : [])]);
  const found = new Map();
  for (const one of [...named, ...told]) {
    const { value, detail } = one !== null && typeof one === "object" ? one : { value: one };
    if (value !== undefined && !found.has(value)) found.set(value, { text: String(value), insert: written(value, place), detail: detail || "" });
  }
  return [...found.values()];
}

function matching(found, prefix) {
  const wanted = prefix.toLowerCase();
  const rank = ({ text }) => (text.toLowerCase().startsWith(wanted) ? 0 : text.toLowerCase().includes(wanted) ? 1 : 2);
  const kept = found.filter((one) => rank(one) < 2 && one.text !== prefix);
  return kept.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

export function suggestions(guide, place) {
  if (place.kind === "expression") {
    const found = (guide.expressions || []).map((one) => (typeof one === "string" ? { value: one } : one));
    return matching(found.map(({ value, detail }) => ({ text: value, insert: `${value}>`, detail: detail || "" })), place.prefix);
  }
  const root = guide.schema || {};
  const schemas = schemasAt(root, place.path, place.scalars);
  const isItem = place.path.at(-1) === "*";
  const found = place.kind === "key" ? keys(root, schemas, place) : [];
  return matching([...found, ...(place.kind === "value" || isItem ? values(guide, schemas, place) : [])], place.prefix.replace(/^["']/, ""));
}
