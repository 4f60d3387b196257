import { engineConformance } from '../support/engine/conformance.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';

engineConformance('kubernetes, successors and commands that run once', kubernetesUnderTest, {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  share: 'parts',
  parts: { successors: true, once: true },
});
