// The answers of a page, read as it does, from blocks that the package has packed.
export const from = (name) => import(`${process.env.SCRIPTS}/${name}.js`);

export async function readStore({ kept, blocks, labels, classes, models }) {
  const { AllClasses, Votes } = await from("combining");
  const { TopClasses } = await from("topclasses");
  const { confidences, join, squares, unpack } = await from("data");
  const read = async (name, planes) => join(await unpack(blocks[name]), planes);
  const answers = {
    models, classes, labels, examples: labels.length, predicted: await read("predicted", 1),
    confidence: kept.kind === "votes" ? null : confidences(await read("confidence", kept.planes), kept.planes),
  };
  let store = new Votes(answers);
  if (kept.kind === "all") store = new AllClasses(answers, squares(await read("others", kept.planes), kept.planes), 256 ** -kept.planes);
  if (kept.kind === "top") store = new TopClasses(answers, await read("classes", 1), await read("ratios", 1), await read("truth", 1));
  return { answers, store };
}
